package catalog

import (
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// ask writes the prompts of an ask agent: which branch a message belongs to, what is searched for, and how each branch
// answers. A prompt that the parameters leave empty is as if the node had none; where that leaves one branch, nothing is classified.
func (c *compiler) ask(n *agent.NodeDefinition) {
	if len(c.inst.Knowledge) == 0 {
		c.fault("knowledge", "is empty: agents of node %s@%s answer from knowledge collections", n.NodeID, n.Version)
	}
	before := len(c.out.faults)
	c.plan.System = c.askPrompt("retrieval", n.Ask.Retrieval)
	if c.plan.System == "" && len(c.out.faults) == before {
		c.fault("parameters", "leave the retrieval prompt of node %s@%s empty: every answer may need it", n.NodeID, n.Version)
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

// askPrompt fills a prompt; empty when it says nothing.
func (c *compiler) askPrompt(name, prompt string) string {
	if prompt == "" {
		return ""
	}
	text, err := c.given.fill(prompt)
	if err != nil {
		c.fault("parameters", "ask.%s: %s", name, err)
		return ""
	}
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return text
}

// defaultTopK is how many passages a search yields when the collection does not say.
const defaultTopK = 4

// collections adds the search of each collection.
func (c *compiler) collections() {
	for i := range c.in.knowledge {
		ref := &c.in.knowledge[i]
		path := fmt.Sprintf("knowledge[%d]", i)
		if ref.entry == nil {
			c.fault(path, "there is no knowledge collection %q", ref.name)
			continue
		}
		k, _ := ref.entry.parsed.Value.(*agent.KnowledgeCollection)
		step := agent.PlanStep{
			Kind: agent.PrepareRetrieve, Collection: k.Name, Tenant: ref.entry.doc.Tenant, TopK: k.TopK, MinScore: k.MinScore,
			Embedding: c.embedding(ref, path),
		}
		if step.TopK == 0 {
			step.TopK = defaultTopK
		}
		c.plan.Prepare = append(c.plan.Prepare, step)
	}
}

// embedding is the model that a collection's vectors are made by, nil when it has none.
func (c *compiler) embedding(ref *reference, path string) *agent.PlanModel {
	switch {
	case ref.model == nil:
		return nil
	case ref.model.entry == nil:
		c.fault(path, "knowledge collection %q embeds with model profile %q, which does not exist", ref.name, ref.model.name)
		return nil
	}
	m, ok := c.model(ref.model, path)
	if !ok {
		return nil
	}
	return &m
}
