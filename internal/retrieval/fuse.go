package retrieval

import (
	"cmp"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// rankConstant is the k of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009): it keeps a first place from drowning all others.
const rankConstant = 60

// chunkKey names a chunk across rankings.
type chunkKey struct {
	document string
	position int
}

// fuse joins rankings: a passage scores the sum of 1/(60+rank) over the rankings that contain it. It compares ranks because scores of full
// text and of vectors are not comparable. It orders equal scores by document and position.
func fuse(rankings ...[]agent.Passage) []agent.Passage {
	seen := map[chunkKey]int{}
	var fused []agent.Passage
	for _, ranking := range rankings {
		rank := 0
		inThis := map[chunkKey]bool{}
		for i := range ranking {
			key := chunkKey{ranking[i].DocumentID, ranking[i].Position}
			if inThis[key] {
				continue
			}
			inThis[key] = true
			rank++
			score := 1 / float64(rankConstant+rank)
			if at, ok := seen[key]; ok {
				fused[at].Score += score
				continue
			}
			seen[key] = len(fused)
			fused = append(fused, ranking[i])
			fused[len(fused)-1].Score = score
		}
	}
	slices.SortFunc(fused, func(a, b agent.Passage) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.DocumentID, b.DocumentID), cmp.Compare(a.Position, b.Position))
	})
	return fused
}
