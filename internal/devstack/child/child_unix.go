//go:build unix && !linux

package child

import (
	"fmt"
	"os/exec"
	"syscall"
)

// attributes puts the child in its own process group.
func attributes(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// guard starts a shell that signals the child when this process ends: it waits until the kernel closes this process's end of a pipe. When the child
// ends, so does the shell.
func guard(p *Process, deathSignal syscall.Signal) error {
	script := fmt.Sprintf("cat >/dev/null; kill -%d %d", int(deathSignal), p.Pid())
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
