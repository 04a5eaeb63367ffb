package apidoc_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/job"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// shape says which Go type a schema describes, and what the description leaves out, adds or asks for besides what the type tells.
type shape struct {
	of       any
	hidden   []string // members that no caller gets or may give
	added    []string // members that the type does not have
	optional []string // members that are always written, but need not be given
	required []string // members that an answer has nevertheless
}

// shapes are the schemas whose types can be seen from here. The others are met by the answers that have them.
func shapes() map[string]shape {
	all := map[string]shape{
		"TurnRequest":        {of: agent.TurnBody{}, hidden: []string{"stream_to"}},
		"EndedTurn":          {of: agent.AgentStepOutput{}, added: []string{"state", "mode", "fallback", "rerun_of", "from_step", "draft"}, required: []string{"state"}},
		"RerunOutput":        {of: agent.AgentStepOutput{}, added: []string{"rerun_of", "from_step"}, required: []string{"rerun_of"}},
		"Decision":           {of: agent.Decision{}, optional: []string{"by"}},
		"RouteDecision":      {of: agent.RouteDecision{}, required: []string{"rules"}},
		"Job":                {of: job.Job{}, added: []string{"session_id", "agent"}, optional: []string{"version", "job_id", "timeout_sec", "retry_count"}},
		"JobContext":         {of: job.Context{}},
		"JobResult":          {of: job.Result{}},
		"JobApproval":        {of: job.Approval{}},
		"JobMetadata":        {of: job.Metadata{}},
		"WorkflowDefinition": {of: agent.WorkflowDefinition{}, optional: []string{"nodes", "edges"}},
		"RunDetail":          {of: agent.Run{}, required: []string{"steps"}},
		"Schedule":           {of: agent.Schedule{}, optional: []string{"name"}},
		"ErasureRequest":     {of: erasure.Request{}},
		"ErasurePage":        {of: erasure.Page{}},
		"ErasureReport":      {of: erasure.Report{}},
		"ErasureKind":        {of: erasure.Kind{}},
		"ErasedExecutions":   {of: erasure.Executions{}},
		"ErasedContent":      {of: erasure.Content{}},
		"RetentionReport":    {of: retention.Report{}},
		"RetentionStatus":    {of: retention.Status{}},
		"RetentionTenant":    {of: retention.TenantReport{}},
		"RetentionKind":      {of: retention.KindReport{}},
	}
	for _, v := range []any{ // these have the names of their types
		new(agent.Message), new(agent.Block), new(agent.Annotation), new(agent.InvocationContext), new(agent.Limits), new(agent.AgentStepOutput),
		new(agent.RerunRequest), new(agent.ToolCallNote), new(agent.Usage), new(agent.Failure), new(agent.Fault), new(agent.Approval),
		new(agent.Event), new(agent.EventMeta), new(agent.CancelRequest), new(agent.ProvidedResult), new(agent.ClientTool), new(agent.RuleVerdict),
		new(job.PreviousResult), new(agent.TurnPage), new(agent.TurnSummary), new(agent.SessionPage), new(agent.SessionSummary),
		new(gateway.MessagePage), new(gateway.SessionMessage), new(agent.SessionExport), new(agent.ExportMessage), new(agent.ExportTurn),
		new(agent.SessionNote), new(agent.Reference), new(agent.SessionForked), new(agent.SessionDeleted), new(agent.KnowledgeDocument),
		new(agent.Passage), new(agent.NodePage), new(agent.NodeInfo), new(agent.ToolInfo), new(agent.AgentPage), new(agent.AgentInfo),
		new(agent.RateLimits), new(agent.Artifact), new(agent.DocumentPage), new(agent.Document), new(agent.DocumentKey), new(agent.DocumentChange),
		new(agent.HistoryPage), new(agent.AuditEntry), new(agent.CatalogEvent), new(agent.RemovedEntry), new(agent.CatalogStatus),
		new(agent.SourceStatus), new(agent.ApplyResult), new(agent.StoredWorkflow), new(agent.WorkflowNode), new(agent.WorkflowEdge),
		new(agent.WorkflowSchedule), new(agent.WorkflowPatch), new(agent.WorkflowPatchResult), new(agent.Run), new(agent.RunStep),
		new(gateway.RunReceipt), new(agent.Composite), new(agent.CompositeChange), new(agent.Notification), new(agent.HookTarget),
		new(agent.MailTarget), new(agent.PersonTarget), new(agent.ScheduleRun), new(agent.ScheduleNotice), new(agent.ScheduleTriggered),
		new(agent.Principal), new(agent.APIKey), new(agent.NewKey), new(agent.AuditPage), new(agent.AuditRecord), new(agent.UsagePage),
		new(agent.UsageRow), new(agent.UsageSums), new(gateway.DoctorCheck), new(agent.Link), new(agent.LinkPage), new(gateway.DoctorEnd),
		new(erasure.Erasure),
	} {
		of := reflect.ValueOf(v).Elem()
		all[of.Type().Name()] = shape{of: of.Interface()}
	}
	return all
}

// members lists what encoding/json makes of a struct, and what of it is always there.
func members(t reflect.Type) (all, always []string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			inner, innerAlways := members(f.Type)
			all, always = append(all, inner...), append(always, innerAlways...)
		case name == "" || name == "-":
		default:
			all = append(all, name)
			if !strings.Contains(options, "omit") {
				always = append(always, name)
			}
		}
	}
	return all, always
}

// kindOf is the JSON type of a Go type, or nothing where it may be any.
func kindOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.String() == "json.RawMessage":
		return ""
	case t.String() == "time.Time", t.Kind() == reflect.String:
		return "string"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64, reflect.Int32:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	default:
		return "object"
	}
}

// What is described has the members of the Go types, no more and no fewer, and those of their types.
func TestSchemasAreTheTypes(t *testing.T) {
	doc := load(t, open(t))
	for name, s := range shapes() {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, doc.Components.Schemas, name)
			schema := doc.Components.Schemas[name].Value
			all, always := members(reflect.TypeOf(s.of))
			all = slices.DeleteFunc(append(all, s.added...), func(m string) bool { return slices.Contains(s.hidden, m) })
			always = slices.DeleteFunc(append(always, s.required...), func(m string) bool { return slices.Contains(s.optional, m) })
			var has []string
			for member := range schema.Properties {
				has = append(has, member)
			}
			require.ElementsMatch(t, all, has, "members")
			require.ElementsMatch(t, always, schema.Required, "required members")
			for f := range fields(reflect.TypeOf(s.of)) {
				member, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				property := schema.Properties[member]
				if want := kindOf(f.Type); property != nil && want != "" && property.Value.Type != nil {
					require.True(t, property.Value.Type.Is(want), "%s is %s", member, want)
				}
			}
		})
	}
}

// fields yields the fields of a struct that encoding/json writes, those of embedded structs included.
func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(t) {
			if !f.Anonymous && !yield(f) {
				return
			}
		}
	}
}

// enums are the closed lists of values, by the types whose constants they are.
func enums() map[string]string {
	return map[string]string{
		"ApprovalPolicy": "Approve", "BlockType": "BlockType", "DecisionKind": "DecisionKind", "DocumentKind": "Kind", "EventStatusValue": "EventStatusValue",
		"EventType": "EventType", "Expiry": "Expiry", "History": "History", "Mode": "Mode", "NodeType": "NodeType", "OnBusy": "OnBusy",
		"RememberScope": "RememberScope", "Role": "Role", "RunStatus": "RunStatus", "StopReason": "StopReason", "TurnStatus": "TurnStatus", "WaitKind": "WaitKind",
	}
}

// Closed lists hold every constant of their types.
func TestListsOfValuesAreComplete(t *testing.T) {
	doc := load(t, open(t))
	constants := constantsOf(t, "../../../agent")
	for schema, of := range enums() {
		require.Contains(t, doc.Components.Schemas, schema)
		require.NotEmpty(t, constants[of], of)
		require.ElementsMatch(t, constants[of], doc.Components.Schemas[schema].Value.Enum, schema)
	}
	statuses := constantsOf(t, "../../erasure")["Status"]
	require.NotEmpty(t, statuses)
	require.ElementsMatch(t, statuses, doc.Components.Schemas["ErasureStatus"].Value.Enum)
	kinds := doc.Components.Schemas["RetentionKind"].Value.Properties["kind"].Value.Description
	require.ElementsMatch(t, retention.Kinds(), regexp.MustCompile(`, | or `).Split(kinds, -1))
}

// constantsOf reads the typed string constants of a package, by their types.
func constantsOf(t *testing.T, dir string) map[string][]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	found := map[string][]any{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			of, named := spec.Type.(*ast.Ident)
			value, literal := spec.Values[0].(*ast.BasicLit)
			if named && literal && value.Kind == token.STRING {
				text, err := strconv.Unquote(value.Value)
				require.NoError(t, err)
				found[of.Name] = append(found[of.Name], text)
			}
			return true
		})
	}
	return found
}
