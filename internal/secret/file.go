package secret

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/turnstone-run/turnstone/agent"
)

const maxPath = 1024 // bytes

// folder is a folder with secret files. Its subfolders in hidden are not granted.
type folder struct {
	path   string
	hidden []string
}

// defaultFolders returns the folders in which Docker and Kubernetes mount secrets. Kubernetes and clouds also put the identity of this process there,
// which is hidden from documents unless the operator grants its folder.
func defaultFolders() []folder {
	identities := []string{"kubernetes.io", "eks.amazonaws.com", "azure", "tokens"}
	return []folder{{"/run/secrets", identities}, {"/var/run/secrets", identities}}
}

// grantedFolders returns the folders of each tenant, the longest path first, so that the innermost folder of a file decides whether it is hidden.
func grantedFolders(grants []string) (map[string][]folder, error) {
	all := map[string][]folder{agent.DefaultTenant: defaultFolders(), agent.SharedTenant: defaultFolders()}
	for _, entry := range grants {
		tenants, path, err := splitGrant(entry)
		if err != nil || !filepath.IsAbs(path) {
			return nil, agent.Invalid("folders", "want an absolute path, or tenant=/path, got %q", entry)
		}
		for _, tenant := range tenants {
			all[tenant] = append(all[tenant], folder{path: filepath.Clean(path)})
		}
	}
	for _, folders := range all {
		slices.SortStableFunc(folders, func(a, b folder) int { return len(b.path) - len(a.path) })
	}
	return all, nil
}

// readFile returns the secret in a file.
func (r *Resolver) readFile(tenant, path string) (string, error) {
	f, name, err := r.findFile(tenant, path)
	if err != nil {
		return "", err
	}
	op := "read secret " + schemeFile + path
	content, err := f.read(name)
	if err != nil {
		return "", agent.Errorf(codeOf(err), op, "%s", reason(err))
	}
	return trimSecret(op, content)
}

// findFile returns the granted folder that contains a file, and the file's name in it.
func (r *Resolver) findFile(tenant, path string) (folder, string, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) || len(path) > maxPath {
		return folder{}, "", agent.Errorf(agent.CodeInvalid, "read secret", "want an absolute path of at most %d bytes, without . and .., after file:", maxPath)
	}
	op := "read secret " + schemeFile + path
	for _, f := range r.folders[tenant] {
		name, err := filepath.Rel(f.path, path)
		if err != nil || !filepath.IsLocal(name) || name == "." {
			continue
		}
		first, _, _ := strings.Cut(name, string(filepath.Separator))
		if slices.Contains(f.hidden, first) {
			break
		}
		return f, name, nil
	}
	return folder{}, "", agent.Errorf(agent.CodeDenied, op, "the file is in no folder that catalog.secret_folders grants to documents of tenant %q", tenant)
}

var errNoFile = errors.New("not a regular file")

// read reads a file of the folder. os.Root refuses links that lead out of the folder, and O_NONBLOCK prevents waiting for the writer of a pipe.
func (f folder) read(name string) ([]byte, error) {
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	return io.ReadAll(io.LimitReader(file, MaxBytes+1))
}

// codeOf returns the code of an error of the file system.
func codeOf(err error) agent.Code {
	errno, isErrno := errors.AsType[syscall.Errno](err)
	pathErr, ok := errors.AsType[*fs.PathError](err)
	isRefusedByRoot := ok && pathErr.Op == "openat" && !isErrno // os.Root has no exported error for a link that leads out of it
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNoFile), errno == syscall.ENOTDIR:
		return agent.CodeNotFound
	case errors.Is(err, fs.ErrPermission), isRefusedByRoot:
		return agent.CodeDenied
	default:
		return agent.CodeUnavailable
	}
}

// reason returns an error of the file system without the path, which the reference has.
func reason(err error) string {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	return err.Error()
}
