package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate <file|folder|->…", Short: "Check the documents of files, without a server", Args: cobra.MinimumNArgs(1),
		Long: `Check the documents of files without a server: their shape, and that none is there twice. Whether they fit those that the server
has, and whether expressions compile, "starter catalog apply --dry-run" says.

` + filesHelp,
		Example: "  starter catalog validate catalog/\n  starter catalog validate - < analyst.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.untilInterrupted(cmd.Context(), func(ctx context.Context) error {
				files, err := readManifests(ctx, a.in, args)
				if err != nil {
					return err
				}
				return a.validate(files)
			})
		},
	}
}

// validation is the result of validate.
type validation struct {
	Files     int          `json:"files"`
	Documents int          `json:"documents"` // without duplicates and those that cannot be parsed
	Faults    agent.Faults `json:"faults"`
}

func (a *app) validate(files []agent.ManifestFile) error {
	for i := range files {
		files[i].Tenant = a.tenant
	}
	documents, faults := manifest.Parse(files)
	first := map[agent.DocumentKey]*manifest.Document{}
	for _, d := range documents {
		if earlier, twice := first[d.Key]; twice {
			faults = append(faults, d.Fault("", "is there twice: first at %s:%d", earlier.File, earlier.Line))
			continue
		}
		first[d.Key] = d
	}
	result := validation{Files: len(files), Documents: len(first), Faults: append(agent.Faults{}, faults...)}
	err := a.print(result, func() error {
		if len(faults) == 0 {
			a.printLine("%s in %s: no faults", quantity(len(first), "document"), quantity(len(files), "file"))
			return nil
		}
		a.printFaults(a.errOut, faults)
		a.printNote("Error: %s", quantity(len(faults), "fault"))
		return nil
	})
	if err == nil && len(faults) > 0 {
		return exitStatus(exitUsage)
	}
	return err
}

// The exit codes of diff are those of diff(1).
const (
	exitDifferent = 1
	exitTrouble   = 2
)

func (a *app) diffCommand() *cobra.Command {
	var prune bool
	cmd := &cobra.Command{
		Use: "diff <file|folder|->…", Short: "Show what applying files would change", Args: cobra.MinimumNArgs(1),
		Long: "Show what applying files would change, as a unified diff of the documents as YAML. Nothing is changed.\n\n" + filesHelp + `

Exit codes are those of diff: 0 when there are no differences, 1 when there are, 2 when the files are refused or anything else goes
wrong. 3 and 130 are as "starter help" says. Colours are for terminals alone, and not when NO_COLOR is set.`,
		Example: "  starter catalog diff catalog/ --prune\n  starter catalog diff analyst.yaml -o json | jq '.changes[].action'",
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			different, err := a.diff(ctx, c, args, prune)
			switch {
			case exitCode(err) == exitFailed: // which is exitDifferent here
				return exitError{err, exitTrouble}
			case err == nil && different:
				return exitStatus(exitDifferent)
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&prune, "prune", false, "as apply --prune")
	return cmd
}

// diff prints what applying files would change, and reports whether there is a difference.
func (a *app) diff(ctx context.Context, c *client.Client, names []string, prune bool) (different bool, err error) {
	files, err := readManifests(ctx, a.in, names)
	if err != nil {
		return false, err
	}
	r, err := c.Apply(ctx, agent.ApplyRequest{Files: files, Prune: prune, DryRun: true})
	if err != nil {
		return false, err
	}
	changed := slices.DeleteFunc(slices.Clone(r.Changes), func(c agent.DocumentChange) bool { return c.Action == agent.ActionUnchanged })
	return len(changed) > 0, a.print(r, func() error {
		for i := range changed {
			text, err := changeText(&changed[i])
			if err != nil {
				return fmt.Errorf("show change of %s: %w", changed[i].DocumentKey, err)
			}
			a.printDiff(text)
		}
		return nil
	})
}

// changeText returns a change as a unified diff of YAML. A missing document is /dev/null.
func changeText(c *agent.DocumentChange) (string, error) {
	before, from, err := diffSide(c.Before, "served: "+c.String())
	if err != nil {
		return "", err
	}
	after, to, err := diffSide(c.After, "files: "+c.String())
	if err != nil {
		return "", err
	}
	if before == after { // for example, the document is only published
		return c.Action + " " + c.String() + "\n", nil
	}
	return udiff.Unified(from, to, before, after), nil
}

func diffSide(body json.RawMessage, label string) (text, name string, err error) {
	if len(body) == 0 || string(body) == "null" {
		return "", "/dev/null", nil
	}
	text, err = toYAML(body)
	return text, label, err
}

// printDiff prints a diff, with colors if the app uses them.
func (a *app) printDiff(text string) {
	for line := range strings.Lines(cmdline.Printable(text)) {
		if color := diffColor(line); a.useColor && color != "" {
			line = "\x1b[" + color + "m" + strings.TrimSuffix(line, "\n") + "\x1b[m\n"
		}
		fmt.Fprint(a.out, line)
	}
}

// diffColor returns the SGR parameter of the color that git uses for a line of a diff, or "" for no color.
func diffColor(line string) string {
	switch {
	case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		return "1"
	case strings.HasPrefix(line, "@@"):
		return "36"
	case strings.HasPrefix(line, "-"):
		return "31"
	case strings.HasPrefix(line, "+"):
		return "32"
	default:
		return ""
	}
}

// wantsColor reports whether the environment allows colors on a terminal (https://no-color.org).
func wantsColor(env []string) bool {
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if (name == "NO_COLOR" && value != "") || (name == "TERM" && value == "dumb") {
			return false
		}
	}
	return true
}
