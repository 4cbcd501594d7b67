"""The widget's style keeps its table as wide as its cell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ipy_dynwrap.views

if TYPE_CHECKING:
    from .conftest import sync_api

pytestmark = pytest.mark.browser

STYLE = Path(ipy_dynwrap.views.__file__).parent / "static" / "view.css"
LINE = f'<div class="dw-lines"><div class="dw-line"><code>{"x" * 1_000}</code></div></div>'
OPENED = f"""
<div style="width: 800px"><div class="dynwrap"><div class="dw-scroll"><table class="dw-table">
<tr class="dw-row"><td>Net.forward</td><td>compiled</td></tr>
<tr class="dw-details"><td colspan="2"><div class="dw-panel"><table class="dw-entry-table"><tbody>
<tr class="dw-entry-row"><td><div class="dw-entry"><div class="dw-code">{LINE}</div></div></td></tr>
</tbody></table></div></td></tr></table></div></div></div>
"""


def test_a_long_line_scrolls_in_its_listing_and_not_the_table(chromium: sync_api.Browser) -> None:
    page = chromium.new_page()
    page.set_content(f"<style>{STYLE.read_text(encoding='utf-8')}</style>{OPENED}")
    assert page.evaluate("document.querySelector('.dw-table').offsetWidth") <= 800
    assert page.evaluate("(code => code.scrollWidth > code.clientWidth)(document.querySelector('.dw-code'))")
    page.close()
