package store

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"dyno/services/internal/wait"
)

// The embedded etcd ends the process when the disk is full. So the store refuses writes while less is free than etcd
// may still need: the next segment of its log, 64 MB, and some growth of its database. On a small disk an eighth must
// be free.
const (
	minFree      = 96 << 20
	minFreeShare = 8
)

// diskPeriod is the pause between two looks at the free space. It is short, so that no other program can fill the
// reserve meanwhile.
const diskPeriod = 100 * time.Millisecond

// reserve is the space allocated beyond the end of the database's file, in bytes. The file grows by 16 MiB at a time;
// etcd's last writes after the disk is full go there.
const reserve = 20 << 20

// A disk has the free bytes of a disk, and the least for which writes go on.
type disk struct{ free, least uint64 }

func (d disk) full() bool { return d.free < d.least }

func (d disk) String() string {
	return fmt.Sprintf("the disk has %d MiB free, and %d MiB must be: writes are refused, and reads go on, until there is room again", d.free>>20, d.least>>20)
}

// diskOf returns the state of a folder's disk.
func diskOf(folder string) (disk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return disk{}, err
	}
	block := uint64(st.Bsize) //nolint:gosec // of a file system
	return disk{st.Bavail * block, min(minFree, st.Blocks*block/minFreeShare)}, nil
}

// alarmDisk is the alarm of a full disk, next to those of etcd.
const alarmDisk = "DISKFULL"

// watchDisk looks at the disk now, and until the store is closed.
func (s *Store) watchDisk() {
	database := reserved{file: filepath.Join(s.cfg.Dir, "etcd", "member", "snap", "db")}
	s.lookAtDisk(&database)
	s.background.Go(func() {
		wait.Every(s.ctx, diskPeriod, func() { s.lookAtDisk(&database) })
	})
}

func (s *Store) lookAtDisk(database *reserved) {
	look := s.cfg.diskOf
	if look == nil {
		look = diskOf
	}
	d, err := look(s.cfg.Dir)
	if err != nil {
		return // etcd will report it
	}
	s.noteDisk(d)
	if s.full.Load() == nil {
		database.extend()
	}
}

// noteDisk refuses or accepts writes, by the disk's free space. It accepts them again at a quarter above the least,
// so that writes do not fill the disk at once.
func (s *Store) noteDisk(d disk) {
	before := s.full.Load()
	switch {
	case d.full():
		s.full.Store(&d)
		if before == nil {
			s.log.Error(d.String())
		}
	case before != nil && d.free >= d.least+d.least/4:
		s.full.Store(nil)
		s.log.Info("the disk has room again: writes are taken", "free_bytes", d.free)
	}
}

// A reserved file has space allocated beyond its end.
type reserved struct {
	file string
	size int64 // its size at the last extension
}

// extend allocates the space, if the file's size has changed. On a file system without support, only the least free
// space protects.
func (r *reserved) extend() {
	info, err := os.Stat(r.file)
	if err != nil || info.Size() == r.size {
		return
	}
	f, err := os.OpenFile(r.file, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, info.Size()+reserve) == nil {
		r.size = info.Size()
	}
}
