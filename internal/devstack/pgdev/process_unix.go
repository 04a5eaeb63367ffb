//go:build unix && !linux

package pgdev

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// childAttributes puts the child in its own process group.
func childAttributes(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// guard starts a shell that waits for our end of a pipe to close, which happens however we die, and then
// signals the child. It goes away with the child.
func guard(p *process, deathSignal syscall.Signal) error {
	script := fmt.Sprintf("cat >/dev/null; kill -%d %d", int(deathSignal), p.pid())
	watcher := exec.Command("/bin/sh", "-c", script)
	watcher.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := watcher.StdinPipe()
	if err != nil {
		return err
	}
	if err := watcher.Start(); err != nil {
		return err
	}
	go func() {
		<-p.exited
		_ = syscall.Kill(-watcher.Process.Pid, syscall.SIGKILL)
		_ = watcher.Wait()
		_ = pipe.Close()
	}()
	return nil
}

// serves reports whether the process pid is a PostgreSQL server on the cluster data, by its command line.
func serves(pid int, data string) bool {
	out, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out), "postgres") && strings.Contains(string(out), data)
}

// hasMemory reports that there is no known file system in memory here.
func hasMemory(string, uint64) bool { return false }
