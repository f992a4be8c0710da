"""The handout as one page and as a PDF, from `assignment/handout.md`. The command line imports this; it imports the manifest."""
