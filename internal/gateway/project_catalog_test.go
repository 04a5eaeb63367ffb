package gateway

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// unsetFields returns the paths of the fields of a message that are zero, including those of nested messages.
func unsetFields(m protoreflect.Message, path string) []string {
	var out []string
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		here := path + "." + string(f.Name())
		switch {
		case !m.Has(f):
			out = append(out, here)
		case f.Kind() != protoreflect.MessageKind || f.IsMap():
		case f.IsList():
			out = append(out, unsetFields(m.Get(f).List().Get(0).Message(), here)...)
		case !strings.HasPrefix(string(f.Message().FullName()), "google."):
			out = append(out, unsetFields(m.Get(f).Message(), here)...)
		}
	}
	return out
}

// jsonFields returns the JSON names of the fields of a type, including those of embedded types.
func jsonFields(t reflect.Type) []string {
	var out []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			out = append(out, jsonFields(f.Type)...)
			continue
		}
		out = append(out, name)
	}
	return out
}

// Every field of a message is set if every field of the value is, and every field of the value has a field of the same name.
func TestCatalogProjection(t *testing.T) {
	cases := []struct {
		value   any
		project func(v any) proto.Message
		but     string // fields of the value that the message does not have
	}{
		{&agent.NodeInfo{}, func(v any) proto.Message { return nodeInfoToProto(v.(*agent.NodeInfo)) }, ""},
		{&agent.AgentInfo{}, func(v any) proto.Message { return agentInfoToProto(v.(*agent.AgentInfo)) }, ""},
		{&agent.ToolInfo{}, func(v any) proto.Message { return toolInfoToProto(v.(*agent.ToolInfo)) }, ""},
		{&agent.Artifact{}, func(v any) proto.Message { return artifactToProto(v.(*agent.Artifact)) }, ""},
		{&agent.RateLimits{}, func(v any) proto.Message { return rateLimitsToProto(v.(*agent.RateLimits)) }, ""},
		{&agent.Document{}, func(v any) proto.Message { return documentToProto(v.(*agent.Document)) }, "kind tenant name version deleted"},
		{&agent.DocumentChange{}, func(v any) proto.Message { return changeToProto(v.(*agent.DocumentChange)) }, "kind tenant name version"},
		{&agent.AuditEntry{}, func(v any) proto.Message { return entryToProto(v.(*agent.AuditEntry)) }, "kind tenant name version action before after"},
		{&agent.CatalogEvent{}, func(v any) proto.Message { return catalogEventToProto(v.(*agent.CatalogEvent)) }, ""},
		{&agent.RemovedEntry{}, func(v any) proto.Message {
			return catalogEventToProto(&agent.CatalogEvent{Removed: []agent.RemovedEntry{*v.(*agent.RemovedEntry)}}).GetRemoved()[0]
		}, ""},
		{&agent.CatalogStatus{}, func(v any) proto.Message { return statusToProto(v.(*agent.CatalogStatus)) }, ""},
		{&agent.SourceStatus{}, func(v any) proto.Message {
			return statusToProto(&agent.CatalogStatus{Sources: []agent.SourceStatus{*v.(*agent.SourceStatus)}}).GetSources()[0]
		}, ""},
		{&agent.RouteDecision{}, func(v any) proto.Message { return decisionToProto(v.(*agent.RouteDecision)) }, ""},
		{&agent.RuleVerdict{}, func(v any) proto.Message {
			return decisionToProto(&agent.RouteDecision{Rules: []agent.RuleVerdict{*v.(*agent.RuleVerdict)}}).GetRules()[0]
		}, ""},
		{&agent.Fault{}, func(v any) proto.Message { return faultToProto(v.(*agent.Fault)) }, ""},
	}
	for _, c := range cases {
		t.Run(reflect.TypeOf(c.value).Elem().Name(), func(t *testing.T) {
			(&filler{}).fill(reflect.ValueOf(c.value).Elem())
			m := c.project(c.value).ProtoReflect()
			require.Empty(t, unsetFields(m, string(m.Descriptor().Name())))
			for _, name := range jsonFields(reflect.TypeOf(c.value).Elem()) {
				if m.Descriptor().Fields().ByName(protoreflect.Name(name)) == nil {
					require.Contains(t, strings.Fields(c.but), name)
				}
			}
			_, err := proto.Marshal(m.Interface())
			require.NoError(t, err)
		})
	}
}

func TestApplyRequestOfProto(t *testing.T) {
	got := applyFromProto(&pb.ApplyRequest{
		Manifests: []*pb.Manifest{{Name: "n", Data: []byte("d")}, nil}, Delete: []*pb.DocumentKey{{Kind: "k", Tenant: "t", Name: "n", Version: "v"}},
		BaseRevision: 3, FromEmpty: true, Prune: true, DryRun: true, Publish: true, By: "b", Comment: "c",
	})
	require.Equal(t, agent.ApplyRequest{
		Files:        []agent.ManifestFile{{Name: "n", Data: []byte("d")}, {}},
		Delete:       []agent.DocumentKey{{Kind: "k", Tenant: "t", Name: "n", Version: "v"}},
		BaseRevision: 3, FromEmpty: true, Prune: true, DryRun: true, Publish: true, By: "b", Comment: "c",
	}, got)
	require.Equal(t, agent.DocumentKey{}, keyFromProto(nil))
}
