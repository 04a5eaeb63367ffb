package gateway

import (
	"net/http"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// requirement is the permission that a route or a gRPC method checks before its handler runs. The handler checks the permission for the
// resource. Nobody meets the zero requirement, so a route without a requirement is closed.
type requirement struct {
	actions       []agent.Action // the caller must be allowed one of them, for some resource
	everyTenant   bool           // the credential must also be of every tenant, because the answer is about all of them
	anyCredential bool           // instead of actions: every valid credential is enough
	public        bool           // instead of actions: no credential is needed
}

// endpoint is a handler with its requirement.
type endpoint struct {
	required  requirement
	handle    handler
	errorBody ErrorBody // the format of another API's errors; nil means the gateway's
}

// requires returns an endpoint whose caller must be allowed one of the actions.
func requires(h handler, actions ...agent.Action) endpoint {
	return endpoint{required: requirement{actions: actions}, handle: h}
}

// check returns nil if the caller meets the requirement of a route or method. Otherwise it audits the denial and returns it as an error.
func (q *requirement) check(caller identity, route string) error {
	switch {
	case q.public:
		return nil
	case caller.anonymous != nil:
		return caller.anonymous
	case q.anyCredential:
		return nil
	}
	for _, a := range q.actions {
		if caller.allowAny(a) && (!q.everyTenant || !caller.isOfOneTenant()) {
			return nil
		}
	}
	if len(q.actions) == 0 {
		return agent.Errorf(agent.CodeDenied, "", "%.140q has no requirement, so nobody may call it", route)
	}
	caller.audit(agent.AuditDenied, q.actions[0], route, nil)
	if q.everyTenant && caller.allowAny(q.actions[0]) {
		return agent.Errorf(agent.CodeDenied, "", "%s is for credentials of every tenant, because the answer is about all of them", q.actions[0])
	}
	return agent.Errorf(agent.CodeDenied, "", "the credential does not allow %s", q.actions[0])
}

// auditAction returns the action for audit records of callers who are refused before the handler runs.
func (q *requirement) auditAction() agent.Action {
	if len(q.actions) == 0 {
		return agent.AuditAuthenticate
	}
	return q.actions[0]
}

// allowAny reports whether the caller may do a to at least one resource. A scope with a resource allows nothing if the action knows none.
func (c identity) allowAny(a agent.Action) bool {
	if !access.Confinable(a) {
		return c.principal.May(a, "")
	}
	return c.principal.MayAny(a)
}

// methods are the endpoints of one path; any other method gets 405 with Allow.
type methods map[string]endpoint

// method returns the endpoint of a method; GET serves HEAD too.
func (m methods) method(name string) (endpoint, bool) {
	e, ok := m[name]
	if !ok && name == http.MethodHead {
		e, ok = m[http.MethodGet]
	}
	return e, ok
}

// grpcRequirements are the requirements of all gRPC methods.
//
//nolint:gochecknoglobals // a constant in all but syntax
var grpcRequirements = map[string]requirement{
	pb.AgentRuntime_Invoke_FullMethodName:         {actions: []agent.Action{agent.ActionTurnsRun}},
	pb.AgentRuntime_Stream_FullMethodName:         {actions: []agent.Action{agent.ActionTurnsRun}},
	pb.AgentRuntime_AskAgent_FullMethodName:       {actions: []agent.Action{agent.ActionTurnsRun}},
	pb.AgentRuntime_AskAgentStream_FullMethodName: {actions: []agent.Action{agent.ActionTurnsRun}},
	pb.AgentRuntime_Follow_FullMethodName:         {actions: []agent.Action{agent.ActionTurnsRead}},
	pb.AgentRuntime_GetTurn_FullMethodName:        {actions: []agent.Action{agent.ActionTurnsRead}},
	pb.AgentRuntime_ListTurns_FullMethodName:      {actions: []agent.Action{agent.ActionTurnsRead}},
	pb.AgentRuntime_RerunTurn_FullMethodName:      {actions: []agent.Action{agent.ActionTurnsRun}},
	pb.AgentRuntime_ListSessions_FullMethodName:   {actions: []agent.Action{agent.ActionSessionsRead}},
	pb.AgentRuntime_RenameSession_FullMethodName:  {actions: []agent.Action{agent.ActionSessionsRead}},
	pb.AgentRuntime_ForkSession_FullMethodName:    {actions: []agent.Action{agent.ActionSessionsRead}},
	pb.AgentRuntime_Decide_FullMethodName:         {actions: []agent.Action{agent.ActionApprovalsDecide}},
	pb.AgentRuntime_ListApprovals_FullMethodName:  {actions: []agent.Action{agent.ActionApprovalsRead}},
	pb.AgentRuntime_Provide_FullMethodName:        {actions: []agent.Action{agent.ActionTurnsRun}},
	pb.AgentRuntime_Cancel_FullMethodName:         {actions: []agent.Action{agent.ActionTurnsCancel}},
	pb.AgentRuntime_GetResult_FullMethodName:      {actions: []agent.Action{agent.ActionResultsRead}},
	pb.AgentRuntime_ExportSession_FullMethodName:  {actions: []agent.Action{agent.ActionSessionsRead}},
	pb.AgentRuntime_DeleteSession_FullMethodName:  {actions: []agent.Action{agent.ActionSessionsDelete}},
	pb.AgentRuntime_ListAgents_FullMethodName:     {actions: []agent.Action{agent.ActionAgentsRead}},
	pb.AgentRuntime_Route_FullMethodName:          {actions: []agent.Action{agent.ActionAgentsRead}},

	pb.Catalog_ListAgents_FullMethodName:    {actions: []agent.Action{agent.ActionAgentsRead}},
	pb.Catalog_ListNodes_FullMethodName:     {actions: []agent.Action{agent.ActionAgentsRead}},
	pb.Catalog_StreamCatalog_FullMethodName: {actions: []agent.Action{agent.ActionAgentsRead}},
	pb.Catalog_ListDocuments_FullMethodName: {actions: []agent.Action{agent.ActionCatalogRead}},
	pb.Catalog_ListHistory_FullMethodName:   {actions: []agent.Action{agent.ActionCatalogRead}},
	pb.Catalog_GetStatus_FullMethodName:     {actions: []agent.Action{agent.ActionCatalogRead}},
	pb.Catalog_GetPlan_FullMethodName:       {actions: []agent.Action{agent.ActionCatalogRead}},
	pb.Catalog_Apply_FullMethodName:         {actions: []agent.Action{agent.ActionCatalogWrite}},
	pb.Catalog_Publish_FullMethodName:       {actions: []agent.Action{agent.ActionCatalogWrite}},
	pb.Catalog_Delete_FullMethodName:        {actions: []agent.Action{agent.ActionCatalogWrite}},

	grpc_health_v1.Health_Check_FullMethodName: {public: true}, // tells only whether turns can run
	grpc_health_v1.Health_List_FullMethodName:  {public: true},
	grpc_health_v1.Health_Watch_FullMethodName: {anyCredential: true}, // holds a stream

	grpc_reflection_v1.ServerReflection_ServerReflectionInfo_FullMethodName:      {anyCredential: true},
	grpc_reflection_v1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: {anyCredential: true},
}
