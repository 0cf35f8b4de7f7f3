package ui

import "os"

// readOnly opens a file. Folders hold no pipes here.
const readOnly = os.O_RDONLY
