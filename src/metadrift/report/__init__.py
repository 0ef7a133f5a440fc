"""Reports: one self-contained page, and figures and tables for papers."""
