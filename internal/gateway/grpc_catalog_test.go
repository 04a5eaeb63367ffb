package gateway_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

func TestGRPCCatalogReads(t *testing.T) {
	d := startGateway(t, nil)
	d.fillCatalog()
	conn := d.dial()
	c, ctx := pb.NewCatalogClient(conn), t.Context()
	acme := metadata.AppendToOutgoingContext(ctx, "turnstone-tenant", "acme")

	nodes, err := c.ListNodes(ctx, &pb.ListNodesRequest{Type: "agent", Labels: map[string]string{"stage": "beta"}})
	require.NoError(t, err)
	require.Equal(t, "agent@2", nodes.GetNodes()[0].GetNodeId()+"@"+nodes.GetNodes()[0].GetVersion())
	require.EqualValues(t, 1, nodes.GetRevision())
	nodes, err = c.ListNodes(ctx, &pb.ListNodesRequest{NodeId: "agent", PageSize: 1})
	require.NoError(t, err)
	require.Equal(t, "1", nodes.GetNextPageToken())
	nodes, err = c.ListNodes(ctx, &pb.ListNodesRequest{NodeId: "agent", PageSize: 1, PageToken: nodes.GetNextPageToken()})
	require.NoError(t, err)
	require.Equal(t, "2", nodes.GetNodes()[0].GetVersion())

	for _, list := range []func() (*pb.ListAgentsResponse, error){
		func() (*pb.ListAgentsResponse, error) {
			return c.ListAgents(ctx, &pb.ListAgentsRequest{NodeId: "agent", Tool: "execute_pipeline", Labels: map[string]string{"team": "core"}})
		},
		func() (*pb.ListAgentsResponse, error) {
			return pb.NewAgentRuntimeClient(conn).ListAgents(ctx, &pb.ListAgentsRequest{Tool: "execute_pipeline", PageSize: 1})
		},
	} {
		agents, err := list()
		require.NoError(t, err)
		require.Len(t, agents.GetAgents(), 1)
		require.EqualValues(t, 60, agents.GetAgents()[0].GetRateLimits().GetRequestsPerMinute())
		require.True(t, agents.GetAgents()[0].GetTools()[0].GetIsFromToolkit())
	}
	agents, err := c.ListAgents(acme, &pb.ListAgentsRequest{PageSize: 1})
	require.NoError(t, err)
	require.Equal(t, "shared 1", agents.GetAgents()[0].GetName()+" "+agents.GetNextPageToken())
	agents, err = c.ListAgents(acme, &pb.ListAgentsRequest{Tenant: "*"})
	require.NoError(t, err)
	require.Len(t, agents.GetAgents(), 3)

	documents, err := c.ListDocuments(ctx, &pb.ListDocumentsRequest{Kind: "AgentInstance"})
	require.NoError(t, err)
	require.Len(t, documents.GetDocuments(), 1)
	require.JSONEq(t, `{"kind":"AgentInstance","name":"analyst"}`, documents.GetDocuments()[0].GetBody())
	documents, err = c.ListDocuments(acme, &pb.ListDocumentsRequest{Name: "clerk", Source: "api"})
	require.NoError(t, err)
	require.Equal(t, "acme", documents.GetDocuments()[0].GetKey().GetTenant())
	documents, err = c.ListDocuments(ctx, &pb.ListDocumentsRequest{Kind: "NodeDefinition", Version: "1", PageSize: 1, PageToken: "1"})
	require.NoError(t, err)
	require.Equal(t, "pipeline", documents.GetDocuments()[0].GetKey().GetName())

	history, err := c.ListHistory(ctx, &pb.ListHistoryRequest{Tenant: "*", Kind: "AgentInstance", Name: "analyst"})
	require.NoError(t, err)
	require.Equal(t, "created ann", history.GetEntries()[0].GetChange().GetAction()+" "+history.GetEntries()[0].GetBy())
	now, err := c.GetStatus(ctx, &pb.GetStatusRequest{})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"NodeDefinition": 3, "AgentInstance": 4}, now.GetCounts())

	for _, r := range []*pb.GetPlanRequest{{Hash: planHash}, {Agent: "analyst"}, {Agent: "analyst", Tenant: "default"}} {
		plan, err := c.GetPlan(ctx, r)
		require.NoError(t, err)
		require.Equal(t, planHash, plan.GetHash())
		require.Equal(t, string(d.catalog.Plans[planHash]), string(plan.GetPlan()))
	}
}

func TestGRPCCatalogWrites(t *testing.T) {
	d := startGateway(t, nil)
	c, ctx := pb.NewCatalogClient(d.dial()), t.Context()
	files := []*pb.Manifest{{Name: "a.yaml", Data: []byte(manifest)}, {Name: "m.json", Data: []byte(`{"kind":"ModelProfile","name":"m","tenant":"acme"}`)}}
	dry, err := c.Apply(ctx, &pb.ApplyRequest{Manifests: files, DryRun: true})
	require.NoError(t, err)
	require.True(t, dry.GetDryRun())
	require.Len(t, dry.GetChanges(), 3)
	done, err := c.Apply(ctx, &pb.ApplyRequest{Manifests: files, BaseRevision: 1, Publish: true, By: "ann", Comment: "all"})
	require.NoError(t, err)
	require.EqualValues(t, 2, done.GetRevision())
	require.JSONEq(t, `{"kind":"ModelProfile","name":"m","tenant":"acme"}`, done.GetChanges()[2].GetAfter())
	require.Empty(t, done.GetChanges()[2].GetBefore())
	require.Equal(t, agent.ApplyRequest{
		Files:        []agent.ManifestFile{{Name: "a.yaml", Data: []byte(manifest)}, {Name: "m.json", Data: files[1].GetData()}},
		BaseRevision: 1, Publish: true, By: "ann", Comment: "all", Source: agent.SourceAPI,
	}, d.catalog.Applied()[1])

	published, err := c.Publish(ctx, &pb.PublishRequest{Agent: "writer"})
	require.NoError(t, err)
	require.EqualValues(t, 3, published.GetAgent().GetArtifact().GetRevision())
	acme := metadata.AppendToOutgoingContext(ctx, "turnstone-tenant", "acme")
	deleted, err := c.Delete(acme, &pb.DeleteRequest{Key: &pb.DocumentKey{Kind: "ModelProfile", Name: "m"}, DryRun: true})
	require.NoError(t, err)
	require.True(t, deleted.GetDryRun())
	deleted, err = c.Delete(acme, &pb.DeleteRequest{Key: &pb.DocumentKey{Kind: "ModelProfile", Name: "m"}, By: "bob", BaseRevision: 3})
	require.NoError(t, err)
	require.Equal(t, "deleted", deleted.GetChanges()[0].GetAction())
	require.EqualValues(t, 4, deleted.GetRevision())
	pruned, err := c.Apply(ctx, &pb.ApplyRequest{Prune: true, Delete: []*pb.DocumentKey{}})
	require.NoError(t, err)
	require.Len(t, pruned.GetChanges(), 2)
}

func TestGRPCRoute(t *testing.T) {
	d := startGateway(t, nil)
	d.fillCatalog()
	var asked agent.RouteContext
	d.catalog.Decide = func(r agent.RouteContext) (agent.RouteDecision, error) {
		asked = r
		return agent.RouteDecision{Agent: "clerk", Reason: agent.RouteDefault, Rules: []agent.RuleVerdict{{Rule: "admins", Reason: "role is not admin"}}}, nil
	}
	flags, err := structpb.NewStruct(map[string]any{"beta": true})
	require.NoError(t, err)
	got, err := pb.NewAgentRuntimeClient(d.dial()).Route(t.Context(), &pb.RouteRequest{
		SessionId: "s", Context: &pb.InvocationContext{Tenant: "acme", UserRole: "user", Flags: flags},
	})
	require.NoError(t, err)
	require.Equal(t, "role is not admin", got.GetDecision().GetRules()[0].GetReason())
	require.Equal(t, agent.RouteContext{
		InvocationContext: agent.InvocationContext{Tenant: "acme", UserRole: "user", Flags: map[string]any{"beta": true}}, SessionID: "s", Channel: "grpc",
	}, asked)
}

func TestGRPCCatalogBadRequests(t *testing.T) {
	d := startGateway(t, nil)
	d.fillCatalog()
	conn := d.dial()
	c, rt := pb.NewCatalogClient(conn), pb.NewAgentRuntimeClient(conn)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "turnstone-tenant", "default")
	labels := map[string]string{}
	for i := range 17 {
		labels[fmt.Sprint(i)] = "x"
	}
	cases := map[string]struct {
		err   func() error
		code  codes.Code
		field string
	}{
		"page size":      {func() error { return errorOf(c.ListNodes(ctx, &pb.ListNodesRequest{PageSize: 1001})) }, codes.InvalidArgument, "page_size"},
		"negative":       {func() error { return errorOf(rt.ListAgents(ctx, &pb.ListAgentsRequest{PageSize: -1})) }, codes.InvalidArgument, "page_size"},
		"of documents":   {func() error { return errorOf(c.ListDocuments(ctx, &pb.ListDocumentsRequest{PageSize: 9999})) }, codes.InvalidArgument, "page_size"},
		"of history":     {func() error { return errorOf(c.ListHistory(ctx, &pb.ListHistoryRequest{PageSize: 9999})) }, codes.InvalidArgument, "page_size"},
		"token":          {func() error { return errorOf(c.ListAgents(ctx, &pb.ListAgentsRequest{PageToken: "x"})) }, codes.InvalidArgument, "page_token"},
		"labels":         {func() error { return errorOf(c.ListNodes(ctx, &pb.ListNodesRequest{Labels: labels})) }, codes.InvalidArgument, "labels"},
		"node":           {func() error { return errorOf(c.ListAgents(ctx, &pb.ListAgentsRequest{NodeId: "a b"})) }, codes.InvalidArgument, "node_id"},
		"type":           {func() error { return errorOf(c.ListNodes(ctx, &pb.ListNodesRequest{Type: "x"})) }, codes.InvalidArgument, "type"},
		"kind":           {func() error { return errorOf(c.ListDocuments(ctx, &pb.ListDocumentsRequest{Kind: "x"})) }, codes.InvalidArgument, "kind"},
		"tenant":         {func() error { return errorOf(c.ListDocuments(ctx, &pb.ListDocumentsRequest{Tenant: "acme"})) }, codes.InvalidArgument, "tenant"},
		"of agents":      {func() error { return errorOf(rt.ListAgents(ctx, &pb.ListAgentsRequest{Tenant: "acme"})) }, codes.InvalidArgument, "tenant"},
		"nothing":        {func() error { return errorOf(c.Apply(ctx, &pb.ApplyRequest{})) }, codes.InvalidArgument, "manifests"},
		"manifests":      {func() error { return errorOf(c.Apply(ctx, &pb.ApplyRequest{Manifests: make([]*pb.Manifest, 1001)})) }, codes.InvalidArgument, "manifests"},
		"delete nothing": {func() error { return errorOf(c.Delete(ctx, &pb.DeleteRequest{})) }, codes.InvalidArgument, "kind"},
		"delete": {func() error {
			return errorOf(c.Delete(ctx, &pb.DeleteRequest{Key: &pb.DocumentKey{Kind: "NodeDefinition", Name: "agent"}}))
		}, codes.InvalidArgument, "version"},
		"delete nobody": {func() error {
			return errorOf(c.Delete(ctx, &pb.DeleteRequest{Key: &pb.DocumentKey{Kind: "ModelProfile", Name: "m"}}))
		}, codes.NotFound, ""},
		"publish":        {func() error { return errorOf(c.Publish(ctx, &pb.PublishRequest{})) }, codes.InvalidArgument, "agent"},
		"publish nobody": {func() error { return errorOf(c.Publish(ctx, &pb.PublishRequest{Agent: "nobody"})) }, codes.NotFound, "agent"},
		"two plans":      {func() error { return errorOf(c.GetPlan(ctx, &pb.GetPlanRequest{Hash: planHash, Agent: "a"})) }, codes.InvalidArgument, "hash"},
		"no plan":        {func() error { return errorOf(c.GetPlan(ctx, &pb.GetPlanRequest{Hash: "sha256:0"})) }, codes.NotFound, ""},
		"nobody's plan":  {func() error { return errorOf(c.GetPlan(ctx, &pb.GetPlanRequest{})) }, codes.NotFound, "agent"},
		"route":          {func() error { return errorOf(rt.Route(ctx, &pb.RouteRequest{SessionId: "a b"})) }, codes.InvalidArgument, "session_id"},
		"route's tenant": {func() error {
			return errorOf(rt.Route(ctx, &pb.RouteRequest{Context: &pb.InvocationContext{Tenant: "acme"}}))
		}, codes.InvalidArgument, "context.tenant"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := tc.err()
			require.Equal(t, tc.code, status.Code(err), "%v", err)
			require.Equal(t, tc.field, detail[*pb.Failure](t, err).GetField())
			if tc.field != "" {
				require.Equal(t, tc.field, detail[*errdetails.BadRequest](t, err).GetFieldViolations()[0].GetField())
			}
		})
	}
	_, err := c.GetPlan(metadata.AppendToOutgoingContext(t.Context(), "turnstone-tenant", "a b"), &pb.GetPlanRequest{Agent: "analyst"})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}

func TestGRPCFaults(t *testing.T) {
	d := startGateway(t, nil)
	faults := agent.Faults{
		{File: "a.yaml", Line: 3, Column: 7, Document: "AgentInstance default/writer", Path: "models[0]", Message: "no such model"},
		{File: "a.yaml", Line: 9, Document: "RouteTable default/main", Message: "names no agent"},
		{File: "b.yaml", Line: 1, Message: "unknown kind"},
	}
	d.catalog.Refuse = func(agent.ApplyRequest) error { return faults.Err() }
	c := pb.NewCatalogClient(d.dial())
	_, err := c.Apply(t.Context(), &pb.ApplyRequest{Prune: true})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	fields := ""
	for _, v := range detail[*errdetails.BadRequest](t, err).GetFieldViolations() {
		fields += v.GetField() + "|" + v.GetDescription() + "\n"
	}
	require.Equal(t, "models[0]|a.yaml:3:7: AgentInstance default/writer: models[0]: no such model\n"+
		"RouteTable default/main|a.yaml:9: RouteTable default/main: names no agent\nb.yaml|b.yaml:1: unknown kind\n", fields)
	listed := detail[*pb.Failure](t, err).GetFaults()
	require.Len(t, listed, 3)
	require.Equal(t, "AgentInstance default/writer models[0] no such model", listed[0].GetDocument()+" "+listed[0].GetPath()+" "+listed[0].GetMessage())

	// Many faults do not fit into the headers of gRPC: the response has the first ones and the number of the others.
	for range 5000 {
		faults = append(faults, agent.Fault{File: "c.yaml", Path: "x", Message: strings.Repeat("ü", 300)})
	}
	_, err = c.Apply(t.Context(), &pb.ApplyRequest{Prune: true})
	require.ErrorContains(t, err, "(and 5002 more)")
	listed = detail[*pb.Failure](t, err).GetFaults()
	require.Regexp(t, `^… and \d{4} more$`, listed[len(listed)-1].GetMessage())
	details, err := proto.Marshal(status.Convert(err).Proto())
	require.NoError(t, err)
	require.Less(t, base64.StdEncoding.EncodedLen(len(details))+600, 8<<10)
}
