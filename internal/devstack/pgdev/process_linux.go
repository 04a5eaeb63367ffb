package pgdev

import (
	"os"
	"strconv"
	"syscall"
)

// childAttributes puts the child in its own process group and has the kernel signal it when we die.
func childAttributes(deathSignal syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: deathSignal}
}

// guard has nothing to do here: the kernel watches.
func guard(*process, syscall.Signal) error { return nil }

// serves reports whether the process pid is a PostgreSQL server on the cluster data: the postmaster makes the
// cluster its working directory.
func serves(pid int, data string) bool {
	cwd, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	return err == nil && cwd == data
}
