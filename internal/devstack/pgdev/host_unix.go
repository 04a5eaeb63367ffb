//go:build unix && !linux

package pgdev

import (
	"os/exec"
	"strconv"
	"strings"
)

// serves reports whether a process is a PostgreSQL server of the cluster in the folder data, which then is in its command line.
func serves(pid int, data string) bool {
	out, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out), "postgres") && strings.Contains(string(out), data)
}

// hasMemory returns false, because only Linux has a known file system in memory.
func hasMemory(string, uint64) bool { return false }
