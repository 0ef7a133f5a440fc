"""What came out: one self-contained page, figures and tables for papers, and the live view."""
