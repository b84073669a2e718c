"""One module for each verb: the options of its command, the files it reads and writes."""
