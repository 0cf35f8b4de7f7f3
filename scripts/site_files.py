"""A hook of MkDocs for links that lead out of the folder of documents. Experiments are part of the site. Of any other
file of the repository, a page of the site says where it is."""

import os
import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

LINK = re.compile(r"\]\((?:\.\./)+(experiments/reports/[\w./-]+\.yaml)\)")
UPWARDS = re.compile(r"\[([^]\[]*)\]\(((?:\.\./)+[^)#\s]+)(?:#[^)]*)?\)")


def on_files(files, config):
    """Adds the experiments that pages link to. A link to one that is not there leads nowhere, and is refused."""
    for page in list(files.documentation_pages()):
        for path in LINK.findall(page.content_string):
            if files.get_file_from_path(path) is None:
                files.append(File(path, os.getcwd(), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown, page, config, **_):
    """Has links lead to the copies, and names other files. A link to one that is not there is refused."""
    folder = os.path.join(os.path.basename(config.docs_dir), os.path.dirname(page.file.src_uri))

    def named(found):
        path = os.path.normpath(os.path.join(folder, found[2]))
        if path.startswith(os.path.basename(config.docs_dir) + os.sep):
            return found[0]
        if not os.path.exists(path):
            raise PluginError(f"{page.file.src_uri}: the link {found[2]} leads nowhere")
        return f"{found[1]} (`{path}`)"

    up = "../" * page.file.src_uri.count("/")
    markdown = UPWARDS.sub(lambda found: found[0] if LINK.search(found[0]) else named(found), markdown)
    return LINK.sub(lambda found: f"]({up}{found[1]})", markdown)
