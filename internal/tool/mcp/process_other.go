//go:build !unix

package mcp

import (
	"os"
	"syscall"
)

const (
	terminated = syscall.SIGTERM
	killed     = syscall.SIGKILL
)

// childAttributes has nothing to say: there are no process groups.
func childAttributes() *syscall.SysProcAttr { return nil }

// signalGroup kills a server; what it has started sees its own input end.
func signalGroup(pid int, s syscall.Signal) {
	if p, err := os.FindProcess(pid); err == nil && s == killed {
		_ = p.Kill() // it may have ended
	}
}
