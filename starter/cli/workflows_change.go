package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// patchFlags are the flags of commands that change a definition.
type patchFlags struct {
	owner, description, by, key string
	base                        int64
	dryRun                      bool
}

func (f *patchFlags) register(cmd *cobra.Command) {
	ownerFlag(cmd, &f.owner)
	cmd.Flags().StringVar(&f.description, "description", "", "why, for the history")
	cmd.Flags().StringVar(&f.by, "by", "", "who, for the history")
	cmd.Flags().Int64Var(&f.base, "base-version", 0, "refuse when another version is the newest")
	cmd.Flags().StringVar(&f.key, "idempotency-key", "", "the same key changes once, however often it is sent")
}

func (f *patchFlags) registerDryRun(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be")
}

// setStored sets the owner and the base version to those of a stored definition with the same tag, unless the command line has flags for them.
func (f *patchFlags) setStored(cmd *cobra.Command, tag string, w *agent.StoredWorkflow) {
	if w.Tag != tag {
		return
	}
	if !cmd.Flags().Changed("owner") {
		f.owner = w.Owner
	}
	if f.owner == w.Owner && !cmd.Flags().Changed("base-version") {
		f.base = w.Version
	}
}

// request returns the request for the flags and a tag.
func (f *patchFlags) request(tag string) (agent.WorkflowPatchRequest, error) {
	key, err := workflowKey(tag, f.owner)
	if err != nil {
		return agent.WorkflowPatchRequest{}, err
	}
	return agent.WorkflowPatchRequest{
		WorkflowKey: key, Description: f.description, BaseVersion: f.base, By: f.by, Idempotency: f.key, DryRun: f.dryRun,
	}, refuseNegative("base-version", f.base, 1)
}

// printChange returns a command body that changes a definition. It prints done, a text such as "patched", with the new version.
func (a *app) printChange(f *patchFlags, done string, request requestFunc[agent.WorkflowPatchResult]) runFunc {
	return printAnswerText(a, request, func(r *agent.WorkflowPatchResult) string {
		switch {
		case f.dryRun:
			return fmt.Sprintf("%s of owner %s would become version %d; nothing was changed", r.Tag, r.Owner, r.Version)
		case r.Unchanged:
			return fmt.Sprintf("%s of owner %s is that already, version %d", r.Tag, r.Owner, r.Version)
		default:
			return fmt.Sprintf("%s %s of owner %s: version %d, %s", done, r.Tag, r.Owner, r.Version, r.PatchID)
		}
	})
}

func (a *app) workflowsPutCommand() *cobra.Command {
	var f patchFlags
	var file string
	cmd := &cobra.Command{
		Use: "put <tag> -f <file>", Short: "Make a definition be what a file says", Args: cobra.ExactArgs(1),
		Long: `Make a definition be what a file says: YAML or JSON with nodes, edges and schedules; "-" is standard input. Without --owner it is the owner
"default".

What "get --output json" prints is taken as well. Put under the tag that it has, it goes to the owner that it has, and is refused when its version
is not the newest any more, unless --owner and --base-version say otherwise.`,
		Example: "  starter workflows put main -f main.yaml\n  starter workflows get main | starter workflows put copy -f -",
	}
	cmd.RunE = a.printChange(&f, "stored", func(ctx context.Context, c *client.Client, args []string) (agent.WorkflowPatchResult, error) {
		definition, err := a.readDocument(ctx, file)
		if err != nil {
			return agent.WorkflowPatchResult{}, err
		}
		if stored, ok := storedWorkflow(definition); ok {
			definition = stored.Definition
			f.setStored(cmd, args[0], &stored)
		}
		r, err := f.request(args[0])
		if err != nil {
			return agent.WorkflowPatchResult{}, err
		}
		return c.PutWorkflow(ctx, client.WorkflowPut{
			WorkflowKey: r.WorkflowKey, Definition: definition, Description: f.description, BaseVersion: f.base, By: f.by, Idempotency: f.key,
			DryRun: f.dryRun,
		})
	})
	cmd.Flags().StringVarP(&file, "file", "f", "", "the definition, - for standard input")
	f.register(cmd)
	f.registerDryRun(cmd)
	return cmd
}

func (a *app) workflowsPatchCommand() *cobra.Command {
	var f patchFlags
	var file string
	var ops []string
	cmd := &cobra.Command{
		Use: "patch <tag>", Short: "Change a definition by a JSON Patch", Args: cobra.ExactArgs(1),
		Long: `Change a definition by a JSON Patch (RFC 6902): the operations of a file, an array as YAML or JSON, and those of --op behind them. The result
is checked as a whole; where it is refused nothing is changed.

An --op is what RFC 6902 writes, in words:
  add <path> <json>      replace <path> <json>     test <path> <json>
  remove <path>          move <from> <path>        copy <from> <path>`,
		Example: `  starter workflows patch main -f operations.json
  starter workflows patch main --op 'add /nodes/- {"id":"mail","type":"task","config":{"action":"email","subject":"Price drop!"}}' \
    --op 'add /edges/- {"from":"check","to":"mail","condition":"true"}' --description "mail when the price drops"
  starter workflows patch main --op 'remove /schedules/0' --base-version 4 --dry-run`,
		RunE: a.printChange(&f, "patched", func(ctx context.Context, c *client.Client, args []string) (agent.WorkflowPatchResult, error) {
			operations, err := a.operations(ctx, file, ops)
			if err != nil {
				return agent.WorkflowPatchResult{}, err
			}
			r, err := f.request(args[0])
			if err != nil {
				return agent.WorkflowPatchResult{}, err
			}
			r.Operations = operations
			return c.PatchWorkflow(ctx, r)
		}),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "operations, - for standard input")
	cmd.Flags().StringArrayVar(&ops, "op", nil, "an operation; may be given again and again")
	f.register(cmd)
	f.registerDryRun(cmd)
	return cmd
}

func (a *app) workflowsRevertCommand() *cobra.Command {
	var f patchFlags
	cmd := &cobra.Command{
		Use: "revert <tag> <patch>", Short: "Take back what a patch did", Args: cobra.ExactArgs(2),
		Long: `Take back what a patch did, by a patch of its own on the newest version. It is refused where something that the patch touched has changed
since.`,
		Example: "  starter workflows revert main patch_0193… --description \"too many mails\"",
		RunE: a.printChange(&f, "reverted", func(ctx context.Context, c *client.Client, args []string) (agent.WorkflowPatchResult, error) {
			r, err := f.request(args[0])
			if err != nil {
				return agent.WorkflowPatchResult{}, err
			}
			r.Revert = args[1]
			return c.RevertWorkflow(ctx, r)
		}),
	}
	f.register(cmd)
	f.registerDryRun(cmd)
	return cmd
}

func (a *app) workflowsDeleteCommand() *cobra.Command {
	var f patchFlags
	cmd := &cobra.Command{
		Use: "delete <tag>", Short: "Take a definition out of use", Args: cobra.ExactArgs(1),
		Long:    "Take a definition out of use. Its schedules end, its runs go on, and its history stays; putting it again continues the version numbers.",
		Example: "  starter workflows delete main --description \"replaced by trips\"",
		RunE: a.printChange(&f, "deleted", func(ctx context.Context, c *client.Client, args []string) (agent.WorkflowPatchResult, error) {
			r, err := f.request(args[0])
			if err != nil {
				return agent.WorkflowPatchResult{}, err
			}
			return c.DeleteWorkflow(ctx, client.WorkflowDelete{
				WorkflowKey: r.WorkflowKey, Description: f.description, BaseVersion: f.base, By: f.by, Idempotency: f.key,
			})
		}),
	}
	f.register(cmd)
	return cmd
}

// storedWorkflow decodes a stored definition in the format of get --output json. It returns false if raw is a definition without version and owner.
func storedWorkflow(raw json.RawMessage) (agent.StoredWorkflow, bool) {
	var w agent.StoredWorkflow
	if json.Unmarshal(raw, &w) != nil || w.Tag == "" || w.Version < 1 || !bytes.HasPrefix(bytes.TrimSpace(w.Definition), []byte("{")) {
		return agent.StoredWorkflow{}, false
	}
	return w, true
}

// readDocument returns the YAML or JSON of a file as JSON; "-" is standard input.
func (a *app) readDocument(ctx context.Context, file string) (json.RawMessage, error) {
	if file == "" {
		return nil, usageError{errors.New("--file is missing: give a file, or - for standard input")}
	}
	data, err := a.readInput(ctx, file)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, usageError{err}
	}
	raw, err := toJSON(data)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", file, err)}
	}
	return raw, nil
}

// toJSON returns a YAML document as JSON. It returns JSON unchanged, and refuses more than one document.
func toJSON(data []byte) (json.RawMessage, error) {
	text := bytes.TrimSpace(data)
	if len(text) == 0 {
		return nil, errors.New("is empty")
	}
	if json.Valid(text) {
		return text, nil
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("is neither JSON nor YAML: %w", err)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("has more than one YAML document")
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("cannot be written as JSON: %w", err)
	}
	return raw, nil
}

// operations returns the operations in a file, if any, followed by those of --op.
func (a *app) operations(ctx context.Context, file string, ops []string) (json.RawMessage, error) {
	var all []json.RawMessage
	if file != "" {
		raw, err := a.readDocument(ctx, file)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &all); err != nil {
			return nil, usageError{fmt.Errorf("%s: want an array of operations", file)}
		}
	}
	for _, text := range ops {
		operation, err := readOperation(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--op %q: %w", text, err)}
		}
		all = append(all, operation)
	}
	if len(all) == 0 {
		return nil, usageError{errors.New("there is nothing to do: give --op or --file")}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, usageError{fmt.Errorf("operations: %w", err)}
	}
	return raw, nil
}

// readOperation parses the value of --op.
func readOperation(text string) (json.RawMessage, error) {
	word, arguments, _ := strings.Cut(strings.TrimSpace(text), " ")
	path, value, _ := strings.Cut(strings.TrimSpace(arguments), " ")
	value = strings.TrimSpace(value)
	operation := struct {
		Op    string          `json:"op"`
		From  *string         `json:"from,omitempty"`
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value,omitempty"`
	}{Op: word, Path: path}
	switch {
	case slices.Contains([]string{"add", "replace", "test"}, word):
		if !json.Valid([]byte(value)) {
			return nil, fmt.Errorf("want %s <path> <json>; text is in quotes", word)
		}
		operation.Value = json.RawMessage(value)
	case word == "remove":
		if value != "" {
			return nil, errors.New("want remove <path>")
		}
	case word == "move", word == "copy":
		if value == "" || strings.Contains(value, " ") {
			return nil, fmt.Errorf("want %s <from> <path>", word)
		}
		operation.From, operation.Path = &path, value
	default:
		return nil, errors.New("want add, remove, replace, move, copy or test")
	}
	if operation.Path == "" || operation.Path[0] != '/' {
		return nil, fmt.Errorf("%q is no path: it begins with /", operation.Path)
	}
	return json.Marshal(operation)
}
