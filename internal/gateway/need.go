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

// need is what a path or a method wants of its caller before it does anything; what the credential must allow of the very resource is
// asked where that is known. The zero need is met by nobody, so that what states none is closed.
type need struct {
	actions    []agent.Action // one of which must be allowed, of some resource
	everywhere bool           // the credential must be of every tenant besides: what is told is about all of them
	known      bool           // instead: any credential will do
	anyone     bool           // instead: none is needed
}

// endpoint is a handler with what it wants of its caller.
type endpoint struct {
	need   need
	handle handler
	fail   func(w http.ResponseWriter, status int, f *agent.Failure) // writes a refusal in the format of another API; nil: as everywhere
}

// needs makes an endpoint of a handler that wants one of some actions.
func needs(h handler, actions ...agent.Action) endpoint {
	return endpoint{need: need{actions: actions}, handle: h}
}

func (n *need) check(caller identity, what string) error {
	switch {
	case n.anyone:
		return nil
	case caller.anonymous != nil:
		return caller.anonymous
	case n.known:
		return nil
	}
	for _, a := range n.actions {
		if caller.allowAny(a) && (!n.everywhere || !caller.isOfOneTenant()) {
			return nil
		}
	}
	if len(n.actions) == 0 {
		return agent.Errorf(agent.CodeDenied, "", "nobody is allowed this: %.140q states no action", what)
	}
	caller.audit(agent.AuditDenied, n.actions[0], what, nil)
	if n.everywhere && caller.allowAny(n.actions[0]) {
		return agent.Errorf(agent.CodeDenied, "", "%s is for credentials of every tenant: it tells about all of them", n.actions[0])
	}
	return agent.Errorf(agent.CodeDenied, "", "the credential does not allow %s", n.actions[0])
}

// deed is what somebody is said to have tried who is refused for another reason than n: its action, the first of several, or where any
// credential will do, to say who he is.
func (n *need) deed() agent.Action {
	if len(n.actions) == 0 {
		return agent.AuditAuthenticate
	}
	return n.actions[0]
}

// allowAny reports whether the caller may do a at all, to some resource at least. Where an action has no resources, a scope that names some
// allows nothing: it was meant to confine.
func (c identity) allowAny(a agent.Action) bool {
	if !access.Confinable(a) {
		return c.principal.May(a, "")
	}
	return c.principal.MayAny(a)
}

// public is an endpoint that needs no credential.
func public(h handler) endpoint { return endpoint{need: need{anyone: true}, handle: h} }

// methods serves one path: a method that is missing gets 405 with Allow.
type methods map[string]endpoint

// method finds the endpoint of a request; GET serves HEAD too.
func (m methods) method(name string) (endpoint, bool) {
	e, ok := m[name]
	if !ok && name == http.MethodHead {
		e, ok = m[http.MethodGet]
	}
	return e, ok
}

// callNeeds are the needs of all gRPC methods.
//
//nolint:gochecknoglobals // a constant in all but syntax
var callNeeds = map[string]need{
	pb.AgentRuntime_Invoke_FullMethodName:         {actions: []agent.Action{agent.ActionTurnsRun}},
	pb.AgentRuntime_Stream_FullMethodName:         {actions: []agent.Action{agent.ActionTurnsRun}},
	pb.AgentRuntime_AskAgent_FullMethodName:       {actions: []agent.Action{agent.ActionTurnsRun}},
	pb.AgentRuntime_AskAgentStream_FullMethodName: {actions: []agent.Action{agent.ActionTurnsRun}},
	pb.AgentRuntime_Follow_FullMethodName:         {actions: []agent.Action{agent.ActionTurnsRead}},
	pb.AgentRuntime_GetTurn_FullMethodName:        {actions: []agent.Action{agent.ActionTurnsRead}},
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

	grpc_health_v1.Health_Check_FullMethodName: {anyone: true}, // says no more than whether
	grpc_health_v1.Health_List_FullMethodName:  {anyone: true},
	grpc_health_v1.Health_Watch_FullMethodName: {known: true}, // holds a stream

	grpc_reflection_v1.ServerReflection_ServerReflectionInfo_FullMethodName:      {known: true},
	grpc_reflection_v1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: {known: true},
}
