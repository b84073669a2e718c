"""Studies: the verbs with files in and files out, and files of several steps."""
