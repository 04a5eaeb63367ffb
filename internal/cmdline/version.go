package cmdline

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is the version of a program.
type Version struct {
	Program string `json:"program"`
	Version string `json:"version"` // version of the module: a tag, a pseudo-version of a commit, or (devel)
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
}

// ReadVersion returns the version that the Go toolchain recorded in this program.
func ReadVersion(program string) Version {
	v := Version{Program: program, Version: "(devel)"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Go = info.GoVersion
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v.Commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if v.Commit != "" {
		v.Commit += dirty
	}
	return v
}

// String returns program, version, commit and the version of Go on one line.
func (v Version) String() string {
	if v.Commit == "" {
		return fmt.Sprintf("%s %s (%s)", v.Program, v.Version, v.Go)
	}
	return fmt.Sprintf("%s %s (commit %s, %s)", v.Program, v.Version, v.Commit, v.Go)
}

// VersionCommand returns a command that prints the version.
func VersionCommand(program string) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print program, version, commit and Go", Args: cobra.NoArgs, Example: "  " + program + " version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), ReadVersion(program))
			return err
		},
	}
}
