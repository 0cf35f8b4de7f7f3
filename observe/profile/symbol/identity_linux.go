package symbol

import (
	"io/fs"
	"syscall"
)

func identityOf(info fs.FileInfo) (identity, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}, false
	}
	return identity{st.Dev, st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec}, true
}
