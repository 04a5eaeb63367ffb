package turnstone

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm"
)

func auth(secret string) *agent.PlanAuth {
	return &agent.PlanAuth{Type: agent.AuthBearer, Secret: secret}
}

// libraryCatalog is a catalog with an agent, a collection with vectors and one without.
type libraryCatalog struct{}

func (libraryCatalog) ListAgents(context.Context, agent.AgentQuery) (agent.AgentPage, error) {
	return agent.AgentPage{Agents: []agent.AgentInfo{{Name: "librarian"}}}, nil
}

func (libraryCatalog) Resolve(context.Context, string, string) (agent.Plan, string, error) {
	return agent.Plan{Models: []agent.PlanModel{{Profile: "gpt", Provider: "openai", Model: "gpt-4o", Auth: auth("CHAT_KEY")}}}, "", nil
}

func (libraryCatalog) Documents(_ context.Context, q agent.DocumentQuery) (agent.DocumentPage, error) {
	key := agent.DocumentKey{Kind: q.Kind, Tenant: "acme"}
	manuals, notes := key, key
	manuals.Name, notes.Name = "manuals", "notes"
	return agent.DocumentPage{Documents: []agent.Document{{DocumentKey: manuals}, {DocumentKey: notes}}}, nil
}

func (libraryCatalog) Collection(_ context.Context, tenant, name string) (agent.KnowledgeCollection, *agent.PlanModel, error) {
	if tenant != "acme" || name != "manuals" {
		return agent.KnowledgeCollection{}, nil, nil
	}
	return agent.KnowledgeCollection{}, &agent.PlanModel{Profile: "embeddings", Provider: "openai", Model: "text-embedding-3-small", Auth: auth("EMBEDDING_KEY")}, nil
}

// secrets has the secrets of some references.
type secrets map[string]string

func (s secrets) Reveal(_ context.Context, _, reference string) (string, error) {
	if s[reference] == "" {
		return "", agent.Errorf(agent.CodeNotFound, "read secret "+reference, "is not set")
	}
	return s[reference], nil
}

func TestModelsWithoutSecret(t *testing.T) {
	for name, c := range map[string]struct {
		known secrets
		want  []string
	}{
		"both": {secrets{"CHAT_KEY": "sk-1", "EMBEDDING_KEY": "sk-2"}, nil},
		"neither": {nil, []string{
			`gpt: model profile "gpt": auth "": read secret CHAT_KEY`,
			`KnowledgeCollection acme/manuals: is searched by words alone, because its embedding model embeddings cannot be called: model profile "embeddings": auth "": read secret EMBEDDING_KEY`,
		}},
		"no embeddings": {secrets{"CHAT_KEY": "sk-1"}, []string{"KnowledgeCollection acme/manuals"}},
	} {
		t.Run(name, func(t *testing.T) {
			models, err := llm.Open(llm.Settings{Kinds: []llm.Provider{llm.OpenAI(llm.Config{})}, Secrets: c.known, Outbound: http.DefaultClient})
			require.NoError(t, err)
			texts, err := modelsWithoutSecret(libraryCatalog{}, models)(t.Context())
			require.NoError(t, err)
			require.Len(t, texts, len(c.want), "%s", texts)
			for i := range texts {
				require.Contains(t, texts[i], c.want[i])
			}
		})
	}
}
