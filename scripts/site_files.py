"""A hook of MkDocs: pages may link to experiments, which are outside of the folder of documents."""

import os
import re

from mkdocs.structure.files import File

LINK = re.compile(r"\]\((?:\.\./)+(experiments/reports/[\w./-]+\.yaml)\)")


def on_files(files, config):
    """Adds the experiments that pages link to. A link to one that is not there leads nowhere, and is refused."""
    for page in list(files.documentation_pages()):
        for path in LINK.findall(page.content_string):
            if files.get_file_from_path(path) is None:
                files.append(File(path, os.getcwd(), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown, page, **_):
    """Has links lead to the copies."""
    up = "../" * page.file.src_uri.count("/")
    return LINK.sub(lambda found: f"]({up}{found[1]})", markdown)
