# The commands and what they install are in tools.py; this file only calls it.
PYTHON ?= python3

.PHONY: demo test accept quick lint docs bench clean

demo test accept quick lint docs bench clean:
	@$(PYTHON) tools.py $@
