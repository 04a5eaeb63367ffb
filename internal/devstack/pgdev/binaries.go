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

// wellKnown lists where packagers put PostgreSQL's programs when not in PATH, as glob patterns.
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

// installation is one set of PostgreSQL programs.
type installation struct {
	dir   string
	major int
}

func (i installation) program(name string) string { return filepath.Join(i.dir, name) }

// findInstallation chooses the programs to run: those in binDir when given, else those in PATH, else the newest
// in a well-known folder. A cluster that exists already has wantMajor and can only be run by that release; 0
// takes any.
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

// candidates lists the folders to look at, in order of preference, without duplicates.
func candidates(binDir string) []string {
	if binDir != "" {
		return []string{binDir}
	}
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		// A link in PATH points into the installation that has initdb and the shared files beside it.
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	var known []string
	for _, pattern := range wellKnown() {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			continue // only a malformed pattern, and these are constants
		}
		known = append(known, matches...)
	}
	slices.SortStableFunc(known, func(a, b string) int { return cmp.Compare(pathMajor(b), pathMajor(a)) })
	for _, dir := range known {
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

// pathMajor reads a release from a folder's name, for sorting only; 0 when there is none.
func pathMajor(dir string) int {
	major, _ := strconv.Atoi(versionInPath.FindString(dir))
	return major
}

// installations asks the programs in each folder for their version and drops folders without both programs.
func installations(ctx context.Context, dirs []string) []installation {
	var found []installation
	for _, dir := range dirs {
		inst := installation{dir: dir}
		if _, err := exec.LookPath(inst.program("initdb")); err != nil {
			continue
		}
		if inst.major = askVersion(ctx, inst.program("postgres")); inst.major > 0 {
			found = append(found, inst)
		}
	}
	return found
}

// askVersion runs "postgres --version"; 0 when that does not answer like PostgreSQL.
func askVersion(ctx context.Context, program string) int {
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
