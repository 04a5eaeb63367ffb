package child

import "syscall"

// attributes puts the child in its own process group and has the kernel send it deathSignal when this process dies.
func attributes(deathSignal syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: deathSignal}
}

// guard does nothing, because the kernel sends the death signal.
func guard(*Process, syscall.Signal) error { return nil }
