package pgdev

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wellKnown returns glob patterns of the folders in which packages install PostgreSQL.
func wellKnown() []string {
	return []string{
		"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
		"/usr/pgsql-*/bin",                                   // PGDG on RHEL and Fedora
		"/usr/libexec/postgresql*",                           // Alpine
		"/usr/lib/postgresql*/bin",                           // openSUSE
		"/usr/local/pgsql/bin",                               // built from source
		"/opt/homebrew/opt/postgresql*/bin",                  // Homebrew on Apple silicon
		"/usr/local/opt/postgresql*/bin",                     // Homebrew on Intel
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",     // Homebrew on Linux
		"/opt/local/lib/postgresql*/bin",                     // MacPorts
		"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
	}
}

// installation is a folder with PostgreSQL's programs.
type installation struct {
	dir   string
	major int
}

func (i installation) program(name string) string { return filepath.Join(i.dir, name) }

// findInstallation returns the programs in binDir or, if binDir is empty, those in PATH or the newest in a well-known folder. They have the major
// version wantMajor, because only that can run an existing cluster. With 0 they have minMajor or later.
func findInstallation(ctx context.Context, binDir string, wantMajor int) (installation, error) {
	found := installations(ctx, candidates(binDir))
	var versions []string
	for _, inst := range found {
		if inst.major >= minMajor && (wantMajor == 0 || inst.major == wantMajor) {
			return inst, nil
		}
		versions = append(versions, strconv.Itoa(inst.major))
	}
	have := "none"
	if len(versions) > 0 {
		have = "only version " + strings.Join(slices.Compact(versions), ", ")
	}
	searched := "PATH, " + strings.Join(wellKnown(), ", ")
	if binDir != "" {
		searched = binDir
	}
	if wantMajor != 0 {
		return installation{}, fmt.Errorf("%w: the data was written by PostgreSQL %d, found %s; install it with "+
			"\"apt-get install postgresql-%d\" or \"brew install postgresql@%d\", or use another data directory (searched %s)",
			ErrNoBinaries, wantMajor, have, wantMajor, wantMajor, searched)
	}
	return installation{}, fmt.Errorf("%w: need version %d or newer, found %s; install it with "+
		"\"apt-get install postgresql\" or \"brew install postgresql@17\", or point to a database of your own (searched %s)",
		ErrNoBinaries, minMajor, have, searched)
}

// candidates returns the folders to search, in order of preference, without duplicates.
func candidates(binDir string) []string {
	if binDir != "" {
		return []string{binDir}
	}
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		// The target of a link has initdb and the shared files in the same installation.
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	var found []string
	for _, pattern := range wellKnown() {
		matches, _ := filepath.Glob(pattern) // fails only for an invalid pattern
		found = append(found, matches...)
	}
	slices.SortStableFunc(found, func(a, b string) int { return cmp.Compare(pathMajor(b), pathMajor(a)) })
	for _, dir := range found {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

var (
	versionInPath   = regexp.MustCompile(`\d+`)
	versionInOutput = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)
)

// pathMajor returns the first number in a path, by which candidates sorts folders, or 0 if there is none.
func pathMajor(dir string) int {
	major, _ := strconv.Atoi(versionInPath.FindString(dir))
	return major
}

// installations returns the folders that have initdb and a postgres that tells its version.
func installations(ctx context.Context, dirs []string) []installation {
	var found []installation
	for _, dir := range dirs {
		inst := installation{dir: dir}
		if _, err := exec.LookPath(inst.program("initdb")); err != nil {
			continue
		}
		if inst.major = majorVersion(ctx, inst.program("postgres")); inst.major > 0 {
			found = append(found, inst)
		}
	}
	return found
}

// majorVersion returns the major version that "postgres --version" prints, or 0 if it prints none.
func majorVersion(ctx context.Context, program string) int {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return 0
	}
	match := versionInOutput.FindSubmatch(out)
	if match == nil {
		return 0
	}
	major, _ := strconv.Atoi(string(match[1]))
	return major
}
