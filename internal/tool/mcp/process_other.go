//go:build !unix

package mcp

import (
	"os"
	"syscall"
)

// childAttributes returns nil: there are no process groups.
func childAttributes() *syscall.SysProcAttr { return nil }

// signalGroup kills a server if the signal is SIGKILL. The processes that the server has started only see that their input ends.
func signalGroup(pid int, s syscall.Signal) {
	if p, err := os.FindProcess(pid); err == nil && s == syscall.SIGKILL {
		_ = p.Kill() // it may have ended
	}
}
