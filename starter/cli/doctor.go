package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// The sections of a visit, in their order.
const (
	sectionMachine = "machine"
	sectionServer  = "server"
	sectionCatalog = "catalog"
	sectionModels  = "models"
)

// The states of a line. A warning lets the visit end well.
const (
	lineOK      = "ok"
	lineWarning = "warning"
	lineFailed  = "failed"
)

// finding is one line of a visit; its JSON is what scripts read.
type finding struct {
	Section string  `json:"section"` // machine, server, catalog or models
	Name    string  `json:"name"`
	Rule    string  `json:"rule,omitempty"` // of a model: the wiring rule that it stands for
	OK      bool    `json:"ok"`
	State   string  `json:"state"` // ok, warning or failed
	Detail  string  `json:"detail,omitempty"`
	Hint    string  `json:"hint,omitempty"` // what to do; never empty where the state is not ok
	TookMS  float64 `json:"took_ms"`
}

// doctorRun is one run of the doctor.
type doctorRun struct {
	app      *app
	client   *client.Client
	section  string
	findings []finding
}

// visitTimeout bounds each question but those to models.
const visitTimeout = 10 * time.Second

func (a *app) doctorCommand() *cobra.Command {
	var name, profile string
	var noModels bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Say what is wrong and what to do: this machine, the server, its catalog, its models", Args: cobra.NoArgs,
		Long: `Say what is wrong and what to do about it: can this machine reach the server, and as whom; how are the things that the server depends on;
what is wrong with its catalog; do the models answer? A line with ✗ failed, one with ! works for now.

The models are tried out with real requests: does the provider answer, stream, call tools, use their results, keep to a schema, stop when
told to? That runs on the server, which has the keys, and costs a few thousand tokens a model; --no-models leaves it out.
Exit code 0: nothing failed. 1: something did.`,
		Example: `  starter doctor --no-models
  starter doctor
  starter doctor --model gpt-4o
  starter doctor --agent analyst -o json | jq '.[] | select(.ok | not)'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if noModels && (name != "" || profile != "") {
				return usageError{errors.New("--no-models leaves out what --agent and --model ask for")}
			}
			return a.untilInterrupted(cmd.Context(), func(ctx context.Context) error {
				v := &doctorRun{app: a}
				if err := v.run(ctx, name, profile, !noModels); err != nil {
					return err
				}
				return v.end()
			})
		},
	}
	cmd.Flags().StringVarP(&name, "agent", "a", "", "agent whose models are tried (default: the tenant's default agent)")
	cmd.Flags().StringVarP(&profile, "model", "m", "", "only this model profile")
	cmd.Flags().BoolVar(&noModels, "no-models", false, "do not try models: costs nothing")
	return cmd
}

// run goes through the sections. An error ends the visit: Ctrl-C, or a request that makes no sense.
func (v *doctorRun) run(ctx context.Context, name, profile string, models bool) error {
	v.begin(sectionMachine, "this machine")
	c, err := v.app.client()
	if err != nil {
		return err
	}
	v.client = c
	h, reached, known := v.machine(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !reached {
		return nil // the rest would say the same once more
	}
	v.begin(sectionServer, "server")
	v.server(&h)
	if !known {
		return nil
	}
	v.begin(sectionCatalog, "catalog")
	v.catalog(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !models {
		return nil
	}
	v.begin(sectionModels, "models (real requests, a few thousand tokens each; --no-models leaves them out)")
	return v.models(ctx, name, profile)
}

// models has the server try models out. What it refuses because the request names nothing is the command's error.
func (v *doctorRun) models(ctx context.Context, name, profile string) error {
	for check, err := range v.client.Doctor(ctx, name, profile) {
		switch {
		case err != nil && (ctx.Err() != nil || agent.CodeOf(err) == agent.CodeInvalid || agent.CodeOf(err) == agent.CodeNotFound):
			return err
		case err != nil:
			v.fail("try models", err, 0)
			return nil
		}
		f := finding{Name: check.Name, Rule: check.Rule, State: lineOK, Detail: check.Detail, TookMS: check.TookMS}
		if !check.OK {
			f.State, f.Hint = lineFailed, modelRemedy(&check)
		}
		v.add(f)
	}
	return nil
}

func (v *doctorRun) begin(section, title string) {
	v.section = section
	if v.app.output == "json" {
		return
	}
	if len(v.findings) > 0 {
		v.app.printLine("")
	}
	v.app.printLine("%s", title)
}

// add notes a line, and shows it at once: a visit takes its time.
func (v *doctorRun) add(f finding) {
	f.Section, f.OK = v.section, f.State == lineOK
	if !f.OK && f.Hint == "" {
		f.Hint = remedyUnknown
	}
	v.findings = append(v.findings, f)
	if v.app.output == "json" {
		return
	}
	v.app.printLine("%s", f.line())
	if !f.OK {
		v.app.printLine("  → %s", clipName(v.app.named(f.Hint)))
	}
}

func (v *doctorRun) well(name, detail string, took time.Duration) {
	v.add(finding{Name: name, State: lineOK, Detail: detail, TookMS: milliseconds(took)})
}

func (v *doctorRun) warn(name, detail, hint string) {
	v.add(finding{Name: name, State: lineWarning, Detail: detail, Hint: hint})
}

// fail notes an error with what to do about it.
func (v *doctorRun) fail(name string, err error, took time.Duration) {
	v.add(finding{Name: name, State: lineFailed, Detail: err.Error(), Hint: v.app.remedy(err), TookMS: milliseconds(took)})
}

// end sums up.
func (v *doctorRun) end() error {
	failed, warned := 0, 0
	for i := range v.findings {
		switch v.findings[i].State {
		case lineFailed:
			failed++
		case lineWarning:
			warned++
		}
	}
	if v.app.output == "json" {
		if err := v.app.printJSON(v.findings); err != nil {
			return err
		}
	} else {
		v.app.printLine("\n%s, %d failed, %s", count(len(v.findings), "check"), failed, count(warned, "warning"))
	}
	if failed > 0 {
		return outcome(exitFailed)
	}
	return nil
}

func (f *finding) line() string {
	sign := map[string]string{lineOK: "✓ ", lineWarning: "! "}[f.State]
	line := cmp.Or(sign, "✗ ") + clipName(f.Name)
	if f.State != lineOK && f.Rule != "" {
		line += " (rule " + clipName(f.Rule) + ")"
	}
	if f.Detail != "" {
		line += ": " + clipName(f.Detail)
	}
	if took := time.Duration(f.TookMS * float64(time.Millisecond)).Round(time.Millisecond); took > 0 {
		line += " — " + took.String()
	}
	return line
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// days says how long something lasts.
func days(d time.Duration) string { return fmt.Sprintf("%d days", int(d/(24*time.Hour))) }
