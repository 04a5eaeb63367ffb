package catalog_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// librarian returns an ask agent of acme with one own and one shared collection, and more as further fields of the agent.
func librarian(more string) string {
	return `
kind: AuthProfile
tenant: acme
name: key
type: bearer
secret: env:ACME_KEY
---
kind: AuthProfile
tenant: "*"
name: key
type: api_key
header: X-Key
secret: env:SHARED_KEY
---
kind: ModelProfile
tenant: acme
name: vectors
provider: openai
model: acme-embed
base_url: https://models.acme.example/v1
auth: key
---
kind: ModelProfile
tenant: "*"
name: vectors
provider: ollama
model: shared-embed
auth: key
context_tokens: 8192
---
kind: KnowledgeCollection
tenant: acme
name: manuals
embedding: vectors
top_k: 7
min_score: 0.25
---
kind: KnowledgeCollection
tenant: "*"
name: laws
embedding: vectors
---
kind: KnowledgeCollection
tenant: acme
name: notes
---
kind: NodeDefinition
node_id: desk
version: "1"
type: agent
properties:
  type: object
  properties:
    topic: {type: string}
    sort: {type: string, default: "Sort messages about {{topic}}."}
    rewrite: {type: string, default: Rewrite.}
    code: {type: string, default: Write code.}
    talk: {type: string, default: Talk.}
    temperature: {type: number}
    max_tokens: {type: integer}
ask:
  classify: "{{sort}}"
  reformulate: "{{rewrite}}"
  retrieval: "Answer about {{topic}}."
  code: "{{code}}"
  conversational: "{{talk}}"
---
kind: AgentInstance
tenant: acme
name: librarian
node_id: desk
node_version: "1"
` + more
}

const threeCollections = "knowledge: [manuals, laws, notes]\n"

func TestAskAgent(t *testing.T) {
	w := newWorld(t)
	w.apply(librarian(threeCollections + "parameters: {topic: beds, temperature: 0.5, max_tokens: 9}\n"))
	p := w.plan("acme", "librarian")
	require.Equal(t, "Answer about beds.", p.System)
	own := &agent.PlanModel{
		Profile: "vectors", Provider: "openai", Model: "acme-embed", BaseURL: "https://models.acme.example/v1",
		Auth: &agent.PlanAuth{Tenant: "acme", Name: "key", Type: agent.AuthBearer, Secret: "env:ACME_KEY"},
	}
	shared := &agent.PlanModel{
		Profile: "vectors", Provider: "ollama", Model: "shared-embed", ContextTokens: 8192,
		Auth: &agent.PlanAuth{Tenant: "*", Name: "key", Type: agent.AuthAPIKey, Header: "X-Key", Secret: "env:SHARED_KEY"},
	}
	require.Equal(t, []agent.PlanStep{
		{
			Kind: agent.PrepareClassify, Prompt: "Sort messages about {{topic}}.", // a parameter is inserted as text; its template is not expanded
			Branches: []agent.PlanBranch{
				{Name: agent.BranchRetrieval, System: "Answer about beds.", Retrieve: true},
				{Name: agent.BranchCode, System: "Write code.", Retrieve: true},
				{Name: agent.BranchConversational, System: "Talk."},
			},
		},
		{Kind: agent.PrepareReformulate, Prompt: "Rewrite."},
		{Kind: agent.PrepareRetrieve, Collection: "manuals", Tenant: "acme", TopK: 7, MinScore: 0.25, Embedding: own},
		{Kind: agent.PrepareRetrieve, Collection: "laws", Tenant: "*", TopK: 4, Embedding: shared}, // with the embedding of the collection's own tenant
		{Kind: agent.PrepareRetrieve, Collection: "notes", Tenant: "acme", TopK: 4},
	}, p.Prepare, "temperature and max_tokens are the answer's")
	require.Equal(t, 9, p.Models[0].MaxTokens)
	require.Nil(t, p.OutputSchema)
}

// Empty prompts leave out the branches and steps that use them.
func TestAskAgentWithPartOfItsPrompts(t *testing.T) {
	branches := func(s *agent.PlanStep) []string {
		var out []string
		for i := range s.Branches {
			out = append(out, s.Branches[i].Name)
		}
		return out
	}
	cases := map[string]struct {
		parameters string
		kinds      []string
		branches   []string
	}{
		"no code":            {`code: ""`, []string{"classify", "reformulate", "retrieve"}, []string{"retrieval", "conversational"}},
		"no talk":            {`talk: " "`, []string{"classify", "reformulate", "retrieve"}, []string{"retrieval", "code"}},
		"one branch":         {`code: "", talk: "\n"`, []string{"reformulate", "retrieve"}, nil},
		"nothing classified": {`sort: ""`, []string{"reformulate", "retrieve"}, nil},
		"as it was asked":    {`rewrite: "", sort: ""`, []string{"retrieve"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(librarian("knowledge: [notes]\nparameters: {topic: beds, " + c.parameters + "}\n"))
			p := w.plan("acme", "librarian")
			var kinds []string
			for i := range p.Prepare {
				kinds = append(kinds, p.Prepare[i].Kind)
			}
			require.Equal(t, c.kinds, kinds)
			require.Equal(t, c.branches, branches(&p.Prepare[0]))
			require.Equal(t, "Answer about beds.", p.System)
		})
	}
}

// The prompts of the shipped node have no missing placeholders and reach the plan unchanged.
func TestShippedAskNode(t *testing.T) {
	w := newWorld(t)
	w.apply("kind: KnowledgeCollection\nname: handbook\n---\n" +
		"kind: AgentInstance\nname: plain\nnode_id: ask\nnode_version: '1'\nknowledge: [handbook]\n---\n" +
		"kind: AgentInstance\nname: german\nnode_id: ask\nnode_version: '1'\nknowledge: [handbook]\nparameters: {language: German, classify_prompt: ''}\n")
	p := w.plan("default", "plain")
	require.Len(t, p.Prepare, 3)
	require.Contains(t, p.System, "from these passages alone")
	require.Contains(t, p.System, "such as [1]")
	require.Contains(t, p.System, "say plainly that the documents do not say it")
	require.Contains(t, p.System, "\n\nAnswer in the language of the question.\n")
	classify := &p.Prepare[0]
	require.Len(t, classify.Branches, 3)
	for _, b := range classify.Branches {
		require.Contains(t, classify.Prompt, "\n"+b.Name+" - ", "the model is told of the branch by the word that is looked for")
		require.NotContains(t, b.System, "{{")
		require.Equal(t, b.Name != agent.BranchConversational, b.Retrieve)
		require.Equal(t, b.Retrieve, strings.Contains(b.System, "[2]"), "only branches with a search cite passages")
	}
	require.Contains(t, p.Prepare[1].Prompt, "Answer with the question alone")

	p = w.plan("default", "german")
	require.Len(t, p.Prepare, 2)
	require.Contains(t, p.System, "Answer in German.")
}

// The example agent of docs/start/catalog.md works.
func TestDocumentedAskAgent(t *testing.T) {
	page, err := os.ReadFile("../../docs/start/catalog.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "\n## Add an ask agent\n")
	require.True(t, ok)
	_, text, ok := strings.Cut(section, "<<'EOT'\n")
	require.True(t, ok)
	text, _, ok = strings.Cut(text, "\nEOT\n")
	require.True(t, ok)
	w := newWorld(t)
	w.apply(text)
	p := w.plan("default", "handbook")
	require.Len(t, p.Prepare, 3)
	require.NotNil(t, p.Prepare[2].Embedding)
}

func TestAskRefusals(t *testing.T) {
	empty := "kind: NodeDefinition\nnode_id: empty\nversion: '1'\ntype: agent\n" +
		"properties: {type: object, properties: {p: {type: string, default: ' '}, q: {type: string}}}\nask: {retrieval: '{{p}}', reformulate: '{{q}}'}\n---\n" +
		"kind: KnowledgeCollection\nname: k\n---\nkind: AgentInstance\nname: a\nnode_id: empty\nnode_version: '1'\n"
	cases := map[string]struct {
		yaml string
		want []string
	}{
		"no knowledge": {librarian("parameters: {topic: beds}\n"), []string{
			"AgentInstance acme/librarian: knowledge: is empty: agents of node desk@1 answer from knowledge collections",
		}},
		"a prompt without its parameter": {librarian(threeCollections), []string{
			`AgentInstance acme/librarian: parameters: ask.retrieval: the node's prompt names "topic", which is not given and has no default`,
		}},
		"nothing to answer by": {empty, []string{
			"knowledge: is empty", "parameters: leave the retrieval prompt of node empty@1 empty",
			`parameters: ask.reformulate: the node's prompt names "q", which is not given`,
		}},
		"collection": {librarian("knowledge: [nowhere]\nparameters: {topic: x}\n"), []string{`knowledge[0]: there is no knowledge collection "nowhere"`}},
		"embedding":  {"kind: KnowledgeCollection\nname: k\nembedding: none\n", []string{`embedding: there is no model profile "none"`}},
		"embedding of a shared collection": {
			"kind: KnowledgeCollection\ntenant: '*'\nname: k\nembedding: mine\n---\nkind: ModelProfile\ntenant: acme\nname: mine\nprovider: offline\nmodel: m\n---\n" +
				agentDoc("acme", "a", "knowledge: [k]"),
			[]string{`KnowledgeCollection */k: embedding: there is no model profile "mine"`, `knowledge[0]: knowledge collection "k" embeds with model profile "mine", which does not exist`},
		},
		"key of an embedding": {
			"kind: AuthProfile\nname: b\ntype: basic\nusername: u\npassword: env:P\n---\nkind: ModelProfile\nname: m\nprovider: openai\nmodel: e\nauth: b\n---\n" +
				"kind: KnowledgeCollection\nname: k\nembedding: m\n---\n" + agentDoc("", "a", "knowledge: [k]"),
			[]string{`knowledge[0]: model profile "m" uses auth profile "b" of type basic, want bearer or api_key`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.try(c.yaml)
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.Zero(t, w.Status(t.Context()).Revision)
		})
	}
}

// A plan is compiled again when the embedding model of its collection, or that model's key, changes.
func TestEmbeddingChangeRecompiles(t *testing.T) {
	w := newWorld(t)
	w.apply(librarian(threeCollections + "parameters: {topic: beds}\n"))
	_, err := w.Publish(t.Context(), "acme", "librarian", "")
	require.NoError(t, err)
	w.apply("kind: ModelProfile\ntenant: '*'\nname: vectors\nprovider: ollama\nmodel: other\nauth: key\n")
	p := w.plan("acme", "librarian")
	require.Equal(t, "acme-embed", p.Prepare[2].Embedding.Model)
	require.Equal(t, "other", p.Prepare[3].Embedding.Model)
	w.apply("kind: AuthProfile\ntenant: '*'\nname: key\ntype: bearer\nsecret: env:NEW\n")
	p = w.plan("acme", "librarian")
	require.Equal(t, "env:NEW", p.Prepare[3].Embedding.Auth.Secret)
	other := w.another()
	again, _, err := other.Resolve(t.Context(), "acme", "librarian")
	require.NoError(t, err)
	require.Equal(t, p, again, "the published plan is stale")
}

func TestKnowledgeCollection(t *testing.T) {
	w := newWorld(t)
	w.apply(librarian(threeCollections + "parameters: {topic: beds}\n"))
	p := w.plan("acme", "librarian")
	for i, name := range []string{"manuals", "laws", "notes"} {
		k, m, err := w.Collection(t.Context(), "acme", name)
		require.NoError(t, err)
		require.Equal(t, name, k.Name)
		require.Equal(t, p.Prepare[2+i].Tenant, k.Tenant)
		require.Equal(t, p.Prepare[2+i].Embedding, m, "passages and queries have the same embedding model")
	}
	_, _, err := w.Collection(t.Context(), "", "manuals")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "it belongs to another tenant")
	require.EqualError(t, err, `collection: there is no knowledge collection "manuals"`)
	w.apply("kind: KnowledgeCollection\nname: house\n")
	_, _, err = w.Collection(t.Context(), "", "house")
	require.NoError(t, err, "an empty tenant means the default tenant")
	k, _, err := w.Collection(t.Context(), "", "laws")
	require.NoError(t, err)
	require.Equal(t, "*", k.Tenant)

	// An earlier release accepted such a document.
	body := `{"embedding":"gone","kind":"KnowledgeCollection","name":"old","tenant":"acme"}`
	key := agent.DocumentKey{Kind: agent.KindKnowledge, Tenant: "acme", Name: "old"}
	_, err = w.store.CommitCatalog(t.Context(), agent.CatalogCommit{
		At: w.Status(t.Context()).Revision, Put: []agent.Document{{DocumentKey: key, Body: []byte(body)}},
	})
	require.NoError(t, err)
	require.NoError(t, w.Start(t.Context()))
	_, _, err = w.Collection(t.Context(), "acme", "old")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.ErrorContains(t, err, `embeds with model profile "gone", which does not exist`)
}
