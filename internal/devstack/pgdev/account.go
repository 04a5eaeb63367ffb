package pgdev

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/devstack/child"
)

// account is the user that the server runs as.
type account struct {
	name     string
	uid, gid uint32
	switched bool // it is not the user of this process, which is root
}

// serverAccount returns the user of this process. For root it returns the user postgres or nobody, because PostgreSQL refuses to run as root.
func serverAccount() (account, error) {
	uid := os.Geteuid()
	if uid != 0 {
		return account{name: strconv.Itoa(uid), uid: uint32(uid), gid: uint32(os.Getegid())}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return account{name: name, uid: uint32(uid), gid: uint32(gid), switched: true}, nil
		}
	}
	return account{}, errors.New("PostgreSQL refuses to run as root, and neither of the users postgres and nobody exists; " +
		"create one or run as an ordinary user")
}

// command returns the configuration of a program that runs as the account, with a fixed environment. It writes the fatal lines of the program's
// output to log.
func (a account) command(deathSignal syscall.Signal, log *zap.Logger, program string, args ...string) child.Config {
	cfg := child.Config{
		Program: program, Args: args, Dir: "/", Env: []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin"}, DeathSignal: deathSignal,
		OnLine: func(line []byte) {
			if bytes.Contains(line, []byte("FATAL:")) || bytes.Contains(line, []byte("PANIC:")) {
				log.Warn("postgres", zap.ByteString("line", line))
			}
		},
	}
	if a.switched {
		cfg.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return cfg
}

// takeOwnership makes the account the owner of path.
func (a account) takeOwnership(path string) error {
	if !a.switched {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// CheckDir returns an error if a server cannot keep its data in dir, which need not exist. If this process is root, the server runs as another user,
// who must have access to every parent folder. The error names the folder to which the user has no access.
func CheckDir(dir string) error {
	acct, err := serverAccount()
	if err != nil {
		return err
	}
	return acct.canReach(dir)
}

func (a account) canReach(dir string) error {
	if !a.switched {
		return nil
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("data directory %q: %w", dir, err)
	}
	for {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, os.ErrNotExist): // will be created with a mode that gives access
		case err != nil:
			return fmt.Errorf("data directory %q: %w", dir, err)
		case !info.IsDir():
			return fmt.Errorf("data directory %q: %q is not a folder", dir, path)
		case !a.canEnter(info):
			return fmt.Errorf("data directory %q: the folder %q (%s) cannot be entered by the user %s, which runs the "+
				"database because PostgreSQL refuses root; choose another place, for example under /var/lib, or run as "+
				"an ordinary user", dir, path, info.Mode(), a.name)
		}
		parent := filepath.Dir(path)
		if parent == path {
			return nil
		}
		path = parent
	}
}

func (a account) canEnter(info os.FileInfo) bool {
	mode := info.Mode().Perm()
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return true // unknown; PostgreSQL will report an error
	case stat.Uid == a.uid:
		return mode&0o100 != 0
	case stat.Gid == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}
