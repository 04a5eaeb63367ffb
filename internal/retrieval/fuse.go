package retrieval

import (
	"cmp"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// rankConstant is the k of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009). It limits the weight of the first ranks.
const rankConstant = 60

// chunkKey names a chunk across rankings.
type chunkKey struct {
	document string
	position int
}

// fuse returns the passages of all rankings, best first. The score of a passage is the sum of 1/(60+rank) over the rankings that contain it. Ranks are used
// because scores of full text and of vectors are not comparable. Equal scores are ordered by document and position.
func fuse(rankings ...[]agent.Passage) []agent.Passage {
	index := map[chunkKey]int{} // in fused
	var fused []agent.Passage
	for _, ranking := range rankings {
		rank := 0
		isRanked := map[chunkKey]bool{}
		for i := range ranking {
			key := chunkKey{ranking[i].DocumentID, ranking[i].Position}
			if isRanked[key] {
				continue
			}
			isRanked[key] = true
			rank++
			score := 1 / float64(rankConstant+rank)
			if i, ok := index[key]; ok {
				fused[i].Score += score
				continue
			}
			index[key] = len(fused)
			fused = append(fused, ranking[i])
			fused[len(fused)-1].Score = score
		}
	}
	slices.SortFunc(fused, func(a, b agent.Passage) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.DocumentID, b.DocumentID), cmp.Compare(a.Position, b.Position))
	})
	return fused
}
