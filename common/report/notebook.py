"""Pages as a notebook shows them: in a frame, so that their style and that of the notebook do not mix."""

import html

HEIGHT = 640  # Pixels.


def frame(page: str, title: str, height: int = HEIGHT) -> str:
    """Returns the HTML of a frame with a page, the HTML of a document; title says what it is to those who cannot see it."""
    style = f'width: 100%; height: {height}px; border: 0'
    return f'<iframe srcdoc="{html.escape(page)}" title="{html.escape(title)}" style="{style}" sandbox></iframe>'


class Shown:
    """A page that a notebook shows, as the value of a cell."""

    def __init__(self, page: str, title: str):
        self._page, self._title = page, title

    def __repr__(self) -> str:
        return self._title

    def _repr_html_(self) -> str:
        return frame(self._page, self._title)


class ShownPath(str):
    """The path of an HTML file, which a notebook shows."""

    def _repr_html_(self) -> str:
        with open(self, encoding='utf-8') as file:
            return frame(file.read(), self, 2 * HEIGHT)
