"""One self-contained HTML file about an identification."""

from gough.report.report import write_report

__all__ = ["write_report"]
