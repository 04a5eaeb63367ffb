//go:build unix && !linux

package pgdev

import (
	"os/exec"
	"strconv"
	"strings"
)

// serves reports whether the process pid is a PostgreSQL server on the cluster data, by its command line.
func serves(pid int, data string) bool {
	out, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out), "postgres") && strings.Contains(string(out), data)
}

// hasMemory reports that there is no known file system in memory here.
func hasMemory(string, uint64) bool { return false }
