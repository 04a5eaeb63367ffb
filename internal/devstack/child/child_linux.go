package child

import "syscall"

// attributes puts the child in its own process group and has the kernel signal it when we die.
func attributes(deathSignal syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: deathSignal}
}

// guard has nothing to do here: the kernel watches.
func guard(*Process, syscall.Signal) error { return nil }
