package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// The sections of the doctor's output, in their order.
const (
	sectionMachine = "machine"
	sectionServer  = "server"
	sectionCatalog = "catalog"
	sectionModels  = "models"
)

// The states of a finding. The doctor fails if one of its findings is stateFailed.
const (
	stateOK      = "ok"
	stateWarning = "warning"
	stateFailed  = "failed"
)

// finding is the result of one check of the doctor.
type finding struct {
	Section string  `json:"section"` // machine, server, catalog or models
	Name    string  `json:"name"`
	Rule    string  `json:"rule,omitempty"` // the wiring rule that a check of a model tests
	OK      bool    `json:"ok"`
	State   string  `json:"state"` // ok, warning or failed
	Detail  string  `json:"detail,omitempty"`
	Hint    string  `json:"hint,omitempty"` // what to do; set unless the state is ok
	TookMS  float64 `json:"took_ms"`
}

// doctorRun is one run of the doctor.
type doctorRun struct {
	app      *app
	client   *client.Client
	section  string
	findings []finding
}

// checkTimeout bounds each check that makes no request to a model.
const checkTimeout = 10 * time.Second

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
				d := &doctorRun{app: a}
				if err := d.run(ctx, name, profile, !noModels); err != nil {
					return err
				}
				return d.printSummary()
			})
		},
	}
	cmd.Flags().StringVarP(&name, "agent", "a", "", "agent whose models are tried (default: the tenant's default agent)")
	cmd.Flags().StringVarP(&profile, "model", "m", "", "only this model profile")
	cmd.Flags().BoolVar(&noModels, "no-models", false, "do not try models: costs nothing")
	return cmd
}

// run runs the checks of all sections. It returns an error on Ctrl-C and for invalid flags; other errors are findings.
func (d *doctorRun) run(ctx context.Context, name, profile string, withModels bool) error {
	d.beginSection(sectionMachine, "this machine")
	c, err := d.app.client()
	if err != nil {
		return err
	}
	d.client = c
	health, reached, authenticated := d.checkMachine(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !reached {
		return nil // all other checks would fail for the same reason
	}
	d.beginSection(sectionServer, "server")
	d.checkServer(&health)
	if !authenticated {
		return nil
	}
	d.beginSection(sectionCatalog, "catalog")
	d.checkCatalog(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !withModels {
		return nil
	}
	d.beginSection(sectionModels, "models (real requests, a few thousand tokens each; --no-models leaves them out)")
	return d.checkModels(ctx, name, profile)
}

// checkModels has the server check models. It returns an error if there is no such agent or model.
func (d *doctorRun) checkModels(ctx context.Context, name, profile string) error {
	for check, err := range d.client.Doctor(ctx, name, profile) {
		switch {
		case err != nil && (ctx.Err() != nil || agent.CodeOf(err) == agent.CodeInvalid || agent.CodeOf(err) == agent.CodeNotFound):
			return err
		case err != nil:
			d.fail("try models", err, 0)
			return nil
		}
		f := finding{Name: check.Name, Rule: check.Rule, State: stateOK, Detail: check.Detail, TookMS: check.TookMS}
		if !check.OK {
			f.State, f.Hint = stateFailed, modelRemedy(&check)
		}
		d.add(f)
	}
	return nil
}

func (d *doctorRun) beginSection(section, title string) {
	d.section = section
	if d.app.output == "json" {
		return
	}
	if len(d.findings) > 0 {
		d.app.printLine("")
	}
	d.app.printLine("%s", title)
}

// add records a finding and, in text, prints it at once.
func (d *doctorRun) add(f finding) {
	f.Section, f.OK = d.section, f.State == stateOK
	if !f.OK && f.Hint == "" {
		f.Hint = remedyUnknown
	}
	d.findings = append(d.findings, f)
	if d.app.output == "json" {
		return
	}
	d.app.printLine("%s", f.line())
	if !f.OK {
		d.app.printLine("  → %s", clipName(d.app.renameProgram(f.Hint)))
	}
}

func (d *doctorRun) pass(name, detail string, took time.Duration) {
	d.add(finding{Name: name, State: stateOK, Detail: detail, TookMS: milliseconds(took)})
}

func (d *doctorRun) warn(name, detail, hint string) {
	d.add(finding{Name: name, State: stateWarning, Detail: detail, Hint: hint})
}

// fail adds a finding for an error, with a hint what to do about it.
func (d *doctorRun) fail(name string, err error, took time.Duration) {
	d.add(finding{Name: name, State: stateFailed, Detail: err.Error(), Hint: d.app.remedy(err), TookMS: milliseconds(took)})
}

// printSummary prints how many checks failed, or all findings with --output json. It returns an error if a check failed.
func (d *doctorRun) printSummary() error {
	failed, warned := 0, 0
	for i := range d.findings {
		switch d.findings[i].State {
		case stateFailed:
			failed++
		case stateWarning:
			warned++
		}
	}
	err := d.app.print(d.findings, func() error {
		d.app.printLine("\n%s, %d failed, %s", quantity(len(d.findings), "check"), failed, quantity(warned, "warning"))
		return nil
	})
	if err == nil && failed > 0 {
		return exitStatus(exitFailed)
	}
	return err
}

func (f *finding) line() string {
	sign := map[string]string{stateOK: "✓ ", stateWarning: "! ", stateFailed: "✗ "}[f.State]
	line := sign + clipName(f.Name)
	if f.State != stateOK && f.Rule != "" {
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
