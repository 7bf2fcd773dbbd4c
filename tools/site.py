"""Hooks of the docs' site: add files outside of docs/, such as the README, as pages.

pip install -e '.[docs]' && mkdocs serve
"""

import os
import posixpath
import re

from mkdocs.structure.files import File, Files

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = {  # Page of the site: file in the repository.
    'index.md': 'README.md',
    'deploy.md': 'deploy/README.md',
    'tools.md': 'tools/README.md',
    'contributing.md': 'CONTRIBUTING.md',
    'changelog.md': 'CHANGELOG.md',
}
_OF_FILE = {file: page for page, file in PAGES.items()}
_LINK = re.compile(r'(!?\[[^\]]*\])\(([^)#\s]*)(#[^)\s]*)?\)')


def on_files(files: Files, config) -> Files:
    """Adds the pages outside of docs/."""
    for page, path in PAGES.items():
        with open(os.path.join(ROOT, path), encoding='utf-8') as file:
            files.append(File.generated(config, page, content=file.read()))
    return files


def on_page_markdown(markdown: str, page, **_) -> str:
    """Points links between files of the repository to pages of the site; removes links to other files."""
    page_path = page.file.src_uri
    of_page = PAGES.get(page_path, f'docs/{page_path}')

    def replaced(match):
        text, target, title = match[1], match[2], match[3] or ''
        if not target or '://' in target or target.startswith('mailto:'):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(of_page), target))
        found = _OF_FILE.get(path) or (path.removeprefix('docs/') if path.startswith('docs/') else None)
        if found is None and os.path.exists(os.path.join(ROOT, path)):
            return text.strip('![]')
        relative = posixpath.relpath(found or path, posixpath.dirname(page_path) or '.')
        return f'{text}({relative}{title})'

    parts = re.split(r'(^```.*?^```$)', markdown, flags=re.MULTILINE | re.DOTALL)
    return ''.join(part if part.startswith('```') else _LINK.sub(replaced, part) for part in parts)
