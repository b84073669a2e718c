"""One self-contained HTML file about an identification."""

from gough.app.report.report import write_report

__all__ = ["write_report"]
