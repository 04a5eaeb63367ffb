package inbox_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/turnstone-run/turnstone"
	root   = "../.."
)

// submit is the one way in.
const submit = "(agent.Inbox).Submit"

// ways lists what can start a turn, or a workflow at all, each with the only places that may use it and why: a folder, a file, or a
// function of a file. A new line here is a decision. What starts a turn for a caller belongs behind Submit, where the caller is
// authorised, admitted and written down.
var ways = map[string]map[string]string{
	// Temporal's.
	"ExecuteWorkflow": {
		"internal/inbox/runs.go (*Runs).startOnce": "the two below",
		"internal/cluster/":                        "runs of schedules, which submit; erasures, which begin no turn",
	},
	"(*internal/inbox.Runs).startOnce": {
		"internal/inbox/runs.go (*Runs).TakeOver":              "turns",
		"internal/inbox/workflow_runs.go (*Runs).startDefined": "runs of definitions; their agents are children",
	},
	"ScheduleWorkflowAction": {
		"internal/cluster/": "runs of schedules and of definitions; sweeps, which begin no turn",
	},
	"ExecuteChildWorkflow":    {"workflows/": "a parent asks: it was admitted itself, or is an operator's"},
	"NewContinueAsNewError":   {"workflows/": "the same turn goes on"},
	"SignalWithStartWorkflow": {}, "UpdateWithStartWorkflow": {}, "NewWithStartWorkflowOperation": {},
	"StartWorkflowExecution": {}, "SignalWithStartWorkflowExecution": {}, "ExecuteMultiOperation": {}, // of the bare service

	// What is started.
	"workflows.AgentTurnType": {
		"internal/inbox/runs.go (*Runs).TakeOver": "turns",
		"workflows/": "children, the same turn again, registration",
	},
	"workflows.AgentTurn": {"workflows/register.go": "registration"},
	`"AgentTurn"`:         {"workflows/names.go": "its name"},

	// What records a turn, or has it started.
	"(*internal/turns.Turns).Begin": {
		"internal/turns/begin_turn.go (*Turns).RecordTurn":      "the two below",
		"internal/turns/begin_turn.go (*Turns).BeginTurn":       "the turn's own workflow",
		"internal/turns/children.go (*Turns).BeginChild":        "a parent asks",
		"internal/turns/queue_message.go (*Turns).QueueMessage": "a message that a workflow took: an operator's",
		"definitions.go agentNodeTurns.BeginTurn":               "an agent node of a run",
	},
	"(*internal/turns.Turns).RecordTurn": {
		"internal/turns/accept.go (*submission).recordAndStart": "a durable turn, before its workflow",
		"internal/direct/direct.go (*Driver).Submit":            "a direct turn",
	},
	"(internal/turns.TurnRecords).Begin":   {"internal/turns/begin_turn.go": "Begin"},
	"(*internal/postgres.TurnStore).Begin": {},
	"(*internal/direct.Driver).Submit":     {},
	"(internal/turns.Driver).Submit":       {"internal/turns/accept.go (*submission).start": "a direct turn"},
	"(*internal/inbox.Runs).Start":         {},
	"(internal/turns.Runs).Start": {
		"internal/turns/accept.go (*submission).recordAndStart": "a durable turn",
		"internal/turns/queue_message.go (*Turns).QueueMessage": "a message that a workflow took",
		"internal/turns/orphans.go (*Turns).startOrphan":        "a recorded turn that nobody drives",
	},
	"(*internal/inbox.Runs).TakeOver":      {"turns.go (*Service).openTurns": "a direct turn that goes on as a workflow", "internal/inbox/runs.go (*Runs).Start": "a turn that nobody has begun"},
	"(*internal/turns.Inbox).submit":       {"internal/turns/accept.go": "Submit, and a message to a turn's session"},
	"(*internal/turns.Inbox).Submit":       {"internal/turns/rerun.go (*Inbox).Rerun": "the input of another turn"},
	"(*internal/turns.Inbox).MessageFrom":  {},
	"(*internal/turns.Inbox).Rerun":        {},
	"(internal/gateway.Turns).Rerun":       {"internal/gateway/reruns.go (*Gateway).rerun": "the HTTP door"},
	"(internal/gateway.Turns).MessageFrom": {"internal/gateway/turns.go (*Gateway).message": "all HTTP and gRPC doors"},
}

// exempt are not part of the product: what a user of it would write, and what the tests run it in.
func exempt(file string) bool {
	return strings.HasPrefix(file, "examples/") || strings.HasPrefix(file, "e2e/")
}

// TestNothingElseStartsATurn reads all of the module's code but its tests.
func TestNothingElseStartsATurn(t *testing.T) {
	s := load(t, nil)
	used := map[string]bool{}
	for _, u := range s.uses {
		if u.what == submit || exempt(u.file) {
			continue
		}
		place, ok := allowed(u)
		if !ok {
			t.Errorf("%s: %s uses %s: what starts turns for callers goes through agent.Inbox.Submit", u.at, u.function, u.what)
		}
		used[u.what+" "+place] = true
	}
	for what, places := range ways {
		for place := range places {
			require.True(t, used[what+" "+place], "%s does not use %s any more: take it out of the table", place, what)
		}
	}
}

// TestEveryChannelSubmits, and every door of the gateway goes through the one place that does.
func TestEveryChannelSubmits(t *testing.T) {
	s := load(t, nil)
	var channels []string
	for at, p := range s.done {
		if s.files[at] == nil || !strings.HasPrefix(at, module+"/internal/channel/") {
			continue
		}
		for _, name := range p.Scope().Names() {
			serve, _, _ := types.LookupFieldOrMethod(types.NewPointer(p.Scope().Lookup(name).Type()), true, p, "Serve")
			f, ok := serve.(*types.Func)
			if ok && strings.Contains(types.TypeString(f.Type(), nil), module+"/agent.Inbox") {
				channels = append(channels, strings.TrimPrefix(at, module+"/"))
			}
		}
	}
	require.NotEmpty(t, channels)
	doors := map[string]int{}
	for _, u := range s.uses {
		if u.what == submit {
			doors[path.Dir(u.file)]++
		}
	}
	for _, c := range channels {
		require.Positive(t, doors[c], "%s serves and never submits", c)
	}
	require.Equal(t, 1, doors["internal/gateway"])
	for dir := range doors {
		require.False(t, strings.HasPrefix(dir, "internal/gateway/"), "%s submits past the gateway", dir)
	}
}

// TestStrayStarts: what the test above is to find it does find.
func TestStrayStarts(t *testing.T) {
	cases := map[string]struct{ code, finds string }{
		"a client": {`import "go.temporal.io/sdk/client"
			func f(c client.Client) { c.ExecuteWorkflow(nil, client.StartWorkflowOptions{}, "X") }`, "ExecuteWorkflow"},
		"by the name of the type": {`import "` + module + `/workflows"
			var name = workflows.AgentTurnType`, "workflows.AgentTurnType"},
		"by its name": {`const name = "AgentTurn"`, `"AgentTurn"`},
		"with a signal": {`import "go.temporal.io/sdk/client"
			func f(c client.Client) { start := c.SignalWithStartWorkflow; _ = start }`, "SignalWithStartWorkflow"},
		"with an update": {`import "go.temporal.io/sdk/client"
			func f(c client.Client) { c.UpdateWithStartWorkflow(nil, client.UpdateWithStartWorkflowOptions{}) }`, "UpdateWithStartWorkflow"},
		"the bare service": {`import "go.temporal.io/api/workflowservice/v1"
			func f(c workflowservice.WorkflowServiceClient) { c.StartWorkflowExecution(nil, nil) }`, "StartWorkflowExecution"},
		"recorded past the inbox": {`import "` + module + `/internal/turns"
			type mine struct{ *turns.Turns }
			func f(m mine) { m.Begin(nil, nil, nil) }`, "(*internal/turns.Turns).Begin"},
		"direct past the inbox": {`import "` + module + `/internal/direct"
			func f(d struct{ drive *direct.Driver }) { d.drive.Submit(nil, nil) }`, "(*internal/direct.Driver).Submit"},
		"started past the inbox": {`import "` + module + `/internal/inbox"
			func f() { var r inbox.Runs; r.Start(nil, nil) }`, "(*internal/inbox.Runs).Start"},
		"nothing of ours": {`type runs struct{}
			func (runs) Start() {}
			func (runs) Begin() {}
			func f(r runs) { r.Start(); r.Begin(); println("AgentTurns") }`, ""},
	}
	strays := map[string]string{}
	for name, c := range cases {
		strays[module+"/stray/"+name] = "package stray\n" + c.code
	}
	found := map[string][]string{}
	for _, u := range load(t, strays).uses {
		if path.Dir(path.Dir(u.file)) == "stray" {
			_, ok := allowed(u)
			require.False(t, ok)
			name := path.Base(path.Dir(u.file))
			found[name] = append(found[name], u.what)
		}
	}
	for name, c := range cases {
		require.Equal(t, c.finds, strings.Join(found[name], ", "), name)
	}
}

// use is one use of a way.
type use struct{ what, file, function, at string }

func allowed(u use) (place string, ok bool) {
	for place := range ways[u.what] {
		if u.file == place || u.file+" "+u.function == place || (strings.HasSuffix(place, "/") && strings.HasPrefix(u.file, place)) {
			return place, true
		}
	}
	return "", false
}

// sources are the packages of the module without their tests, type-checked as far as that goes without anybody else's packages: what the
// module declares is known for what it is, what is others' by its name. That takes a second, and compiles nothing.
type sources struct {
	fset  *token.FileSet
	dirs  map[string]*build.Package // by import path
	stray map[string]string         // code of packages besides, by import path
	files map[string][]*ast.File
	done  map[string]*types.Package
	info  *types.Info
	uses  []use
}

func load(t *testing.T, strays map[string]string) *sources {
	t.Helper()
	s := &sources{
		fset: token.NewFileSet(), dirs: map[string]*build.Package{}, files: map[string][]*ast.File{}, done: map[string]*types.Package{},
		stray: strays, info: &types.Info{Uses: map[*ast.Ident]types.Object{}},
	}
	require.NoError(t, filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		_, other := os.Stat(filepath.Join(dir, "go.mod"))
		if dir != root && (other == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		p, err := build.ImportDir(dir, 0)
		if err != nil { // no code but tests, if any
			return nil //nolint:nilerr // what does not parse does not compile either
		}
		relative, err := filepath.Rel(root, dir)
		s.dirs[path.Join(module, filepath.ToSlash(relative))] = p
		return err
	}))
	require.Greater(t, len(s.dirs), 50, "the module is here")
	paths := slices.Concat(slices.Sorted(maps.Keys(s.dirs)), slices.Sorted(maps.Keys(strays)))
	for _, at := range paths {
		_, err := s.Import(at)
		require.NoError(t, err)
	}
	for _, at := range paths {
		for _, f := range s.files[at] {
			s.read(f)
		}
	}
	return s
}

// Import type-checks a package of the module; anybody else's is empty.
func (s *sources) Import(at string) (*types.Package, error) {
	if p, ok := s.done[at]; ok {
		return p, nil
	}
	dir, ours := s.dirs[at]
	if code, ok := s.stray[at]; ok {
		f, err := parser.ParseFile(s.fset, filepath.Join(root, strings.TrimPrefix(at, module), "stray.go"), code, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.files[at], dir, ours = []*ast.File{f}, &build.Package{}, true
	}
	if !ours {
		p := types.NewPackage(at, path.Base(at))
		p.MarkComplete()
		s.done[at] = p
		return p, nil
	}
	for _, name := range dir.GoFiles {
		f, err := parser.ParseFile(s.fset, filepath.Join(dir.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.files[at] = append(s.files[at], f)
	}
	c := types.Config{Importer: s, Error: func(error) {}} // there are many: what others declare is unknown
	p, _ := c.Check(at, s.fset, s.files[at], s.info)
	s.done[at] = p
	return p, nil
}

// read notes each use of a way in a file, and of submitting.
func (s *sources) read(f *ast.File) {
	for _, d := range f.Decls {
		function := ""
		if fn, ok := d.(*ast.FuncDecl); ok {
			function = fn.Name.Name
			if fn.Recv != nil {
				function = receiver(fn.Recv.List[0].Type) + "." + function
			}
		}
		ast.Inspect(d, func(n ast.Node) bool {
			var what string
			switch n := n.(type) {
			case *ast.Ident:
				what = s.name(n)
			case *ast.BasicLit:
				what = n.Value
			default:
				return true
			}
			if _, way := ways[what]; way || what == submit {
				p := s.fset.Position(n.Pos())
				file, _ := filepath.Rel(root, p.Filename)
				s.uses = append(s.uses, use{what: what, file: filepath.ToSlash(file), function: function, at: p.String()})
			}
			return true
		})
	}
}

// name is what an identifier stands for: of what the module declares the full name, else the identifier.
func (s *sources) name(id *ast.Ident) string {
	o := s.info.Uses[id]
	if o == nil || o.Pkg() == nil || !strings.HasPrefix(o.Pkg().Path(), module) {
		return id.Name
	}
	full := o.Pkg().Path() + "." + o.Name()
	if fn, ok := o.(*types.Func); ok {
		full = fn.FullName()
	}
	return strings.ReplaceAll(full, module+"/", "")
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return "(*" + receiver(e.X) + ")"
	case *ast.Ident:
		return e.Name
	case *ast.IndexExpr:
		return receiver(e.X)
	default:
		return "?"
	}
}
