package pgdev

import (
	"os"
	"strconv"
	"syscall"
)

// serves reports whether a process is a PostgreSQL server of the cluster in the folder data, which then is its working directory.
func serves(pid int, data string) bool {
	cwd, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	return err == nil && cwd == data
}

// hasMemory reports whether dir is on a file system in memory with that many bytes free.
func hasMemory(dir string, bytes uint64) bool {
	const tmpfs = 0x01021994 // TMPFS_MAGIC in statfs(2)
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || fs.Type != tmpfs || fs.Bsize <= 0 {
		return false
	}
	return fs.Bavail >= bytes/uint64(fs.Bsize)
}
