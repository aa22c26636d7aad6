"""Published experiments: their files, and their parts of docs/learning.md."""
