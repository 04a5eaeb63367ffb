package catalog

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// addAskPrompts adds the prompts of an ask agent: the classification of a message into a branch, the reformulation of the search query, and
// the system prompt of each branch. A prompt that is empty with its parameters is left out. One branch needs no classification.
func (c *compiler) addAskPrompts(n *agent.NodeDefinition) {
	if len(c.inst.Knowledge) == 0 {
		c.addFault("knowledge", "is empty: agents of node %s@%s answer from knowledge collections", n.NodeID, n.Version)
	}
	before := len(c.out.faults)
	c.plan.System = c.askPrompt("retrieval", n.Ask.Retrieval)
	if c.plan.System == "" && len(c.out.faults) == before {
		c.addFault("parameters", "leave the retrieval prompt of node %s@%s empty: every answer may need it", n.NodeID, n.Version)
	}
	step := agent.PlanStep{
		Kind: agent.PrepareClassify, Prompt: c.askPrompt("classify", n.Ask.Classify),
		Branches: []agent.PlanBranch{{Name: agent.BranchRetrieval, System: c.plan.System, Retrieve: true}},
	}
	if system := c.askPrompt("code", n.Ask.Code); system != "" {
		step.Branches = append(step.Branches, agent.PlanBranch{Name: agent.BranchCode, System: system, Retrieve: true})
	}
	if system := c.askPrompt("conversational", n.Ask.Conversational); system != "" {
		step.Branches = append(step.Branches, agent.PlanBranch{Name: agent.BranchConversational, System: system})
	}
	if step.Prompt != "" && len(step.Branches) > 1 {
		c.plan.Prepare = append(c.plan.Prepare, step)
	}
	if prompt := c.askPrompt("reformulate", n.Ask.Reformulate); prompt != "" {
		c.plan.Prepare = append(c.plan.Prepare, agent.PlanStep{Kind: agent.PrepareReformulate, Prompt: prompt})
	}
}

// askPrompt returns a prompt with its parameters, empty if it has only white space.
func (c *compiler) askPrompt(name, prompt string) string {
	if prompt == "" {
		return ""
	}
	text, err := c.params.fillPrompt(prompt)
	if err != nil {
		c.addFault("parameters", "ask.%s: %s", name, err)
		return ""
	}
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return text
}

// defaultTopK is the number of passages that a search returns unless the collection sets it.
const defaultTopK = 4

// addCollections adds a prepare step that searches each collection.
func (c *compiler) addCollections() {
	for i := range c.in.knowledge {
		ref := &c.in.knowledge[i]
		path := fmt.Sprintf("knowledge[%d]", i)
		if ref.entry == nil {
			c.addFault(path, "there is no knowledge collection %q", ref.name)
			continue
		}
		k, _ := ref.entry.parsed.Value.(*agent.KnowledgeCollection)
		c.plan.Prepare = append(c.plan.Prepare, agent.PlanStep{
			Kind: agent.PrepareRetrieve, Collection: k.Name, Tenant: ref.entry.doc.Tenant, TopK: cmp.Or(k.TopK, defaultTopK), MinScore: k.MinScore,
			Embedding: c.embeddingModel(ref, path),
		})
	}
}

// embeddingModel returns the model that embeds a collection, nil if it has none.
func (c *compiler) embeddingModel(ref *reference, path string) *agent.PlanModel {
	switch {
	case ref.model == nil:
		return nil
	case ref.model.entry == nil:
		c.addFault(path, "knowledge collection %q embeds with model profile %q, which does not exist", ref.name, ref.model.name)
		return nil
	}
	m, ok := c.planModel(ref.model, path)
	if !ok {
		return nil
	}
	return &m
}
