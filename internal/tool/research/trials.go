package research

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
)

// trialFields are the fields of a study that are requested: a complete study with results is a megabyte.
const trialFields = "NCTId,BriefTitle,OfficialTitle,OverallStatus,StartDate,CompletionDate,StudyFirstPostDate,HasResults,LeadSponsorName," +
	"BriefSummary,Condition,StudyType,Phase,EnrollmentCount,InterventionType,InterventionName"

const maxListed = 10 // phases, conditions or interventions of a study in an answer

// trialsSearch asks the API of ClinicalTrials.gov, version 2.
type trialsSearch struct {
	query        string
	max          int
	status       []string
	phase        []string
	condition    string
	intervention string
}

// trialStatuses returns the values of status in the API.
func trialStatuses() []string {
	return []string{
		"RECRUITING", "NOT_YET_RECRUITING", "ENROLLING_BY_INVITATION", "ACTIVE_NOT_RECRUITING", "COMPLETED", "SUSPENDED", "TERMINATED", "WITHDRAWN",
		"AVAILABLE", "NO_LONGER_AVAILABLE", "TEMPORARILY_NOT_AVAILABLE", "APPROVED_FOR_MARKETING", "WITHHELD", "UNKNOWN",
	}
}

// trialPhases returns the values of phase in the API.
func trialPhases() []string {
	return []string{"EARLY_PHASE1", "PHASE1", "PHASE2", "PHASE3", "PHASE4", "NA"}
}

func parseTrials(args json.RawMessage) (*search, error) {
	var in struct {
		commonArguments
		Status       *[]string `json:"status"`
		Phase        *[]string `json:"phase"`
		Condition    *string   `json:"condition"`
		Intervention *string   `json:"intervention"`
	}
	r := readArguments(args, &in)
	s := &trialsSearch{
		query: r.query(in.Query), max: r.maxResults(in.MaxResults, DefaultResults), status: r.choices("status", in.Status, trialStatuses()),
		phase: r.choices("phase", in.Phase, trialPhases()), condition: r.text("condition", in.Condition),
		intervention: r.text("intervention", in.Intervention),
	}
	return s.search(), r.err
}

func (s *trialsSearch) search() *search {
	return &search{source: trialsName, title: trialsTitle, query: s.query, max: s.max, run: s.run}
}

func (s *trialsSearch) run(ctx context.Context, x *exchange) (*searchResult, error) {
	resp, err := x.ask(ctx, trialsName, "studies", "application/json", s.parameters())
	if err != nil {
		return nil, err
	}
	return parseStudies(resp, s.max)
}

func (s *trialsSearch) parameters() url.Values {
	p := url.Values{
		"query.term": {s.query}, "format": {"json"}, "countTotal": {"true"}, "pageSize": {strconv.Itoa(s.max)}, "fields": {trialFields},
	}
	if s.condition != "" {
		p.Set("query.cond", s.condition)
	}
	if s.intervention != "" {
		p.Set("query.intr", s.intervention)
	}
	if len(s.status) > 0 {
		p.Set("filter.overallStatus", strings.Join(s.status, ","))
	}
	if len(s.phase) > 0 {
		p.Set("filter.advanced", "AREA[Phase]("+strings.Join(s.phase, " OR ")+")")
	}
	return p
}

// study is the part of a study that is used.
//
//nolint:tagliatelle // ClinicalTrials.gov's names
type study struct {
	Protocol struct {
		Identification struct {
			NCT      string `json:"nctId"`
			Brief    string `json:"briefTitle"`
			Official string `json:"officialTitle"`
		} `json:"identificationModule"`
		Status struct {
			Overall   string    `json:"overallStatus"`
			Start     trialDate `json:"startDateStruct"`
			Complete  trialDate `json:"completionDateStruct"`
			FirstPost trialDate `json:"studyFirstPostDateStruct"`
		} `json:"statusModule"`
		Sponsor struct {
			Lead struct {
				Name string `json:"name"`
			} `json:"leadSponsor"`
		} `json:"sponsorCollaboratorsModule"`
		Description struct {
			Brief string `json:"briefSummary"`
		} `json:"descriptionModule"`
		Conditions struct {
			List []string `json:"conditions"`
		} `json:"conditionsModule"`
		Design struct {
			Phases     []string `json:"phases"`
			Enrollment struct {
				Count number `json:"count"`
			} `json:"enrollmentInfo"`
		} `json:"designModule"`
		Arms struct {
			Interventions []struct {
				Type string `json:"type"`
				Name string `json:"name"`
			} `json:"interventions"`
		} `json:"armsInterventionsModule"`
	} `json:"protocolSection"`
	HasResults bool `json:"hasResults"`
}

type trialDate struct {
	Date string `json:"date"`
}

// parseStudies reads {"totalCount":1,"studies":[{"protocolSection":{…}}]}.
func parseStudies(resp *response, limit int) (*searchResult, error) {
	//nolint:tagliatelle // ClinicalTrials.gov's names
	var in struct {
		Total   number   `json:"totalCount"`
		Studies *[]study `json:"studies"`
	}
	if err := readJSON(trialsTitle, resp, &in); err != nil {
		return nil, err
	}
	if in.Studies == nil {
		return nil, unreadableError(trialsTitle, "has no studies")
	}
	out := &searchResult{total: int(in.Total)}
	studies := (*in.Studies)[:min(limit, len(*in.Studies))]
	for i := range studies {
		w := studies[i].work()
		out.add(&w)
	}
	return out, nil
}

func (s *study) work() work {
	p := &s.Protocol
	w := work{source: trialsName, kind: kindReport, genre: "Clinical trial registration", publisher: trialsTitle}
	w.nct = matchID(nctPattern, p.Identification.NCT)
	if w.nct == "" {
		return w
	}
	w.title = titleOf(p.Identification.Brief)
	if w.title == "" {
		w.title = titleOf(p.Identification.Official)
	}
	w.issued = isoDate(p.Status.FirstPost.Date)
	w.url = "https://clinicaltrials.gov/study/" + w.nct
	w.abstract = plainText(p.Description.Brief)
	sponsor := personName(p.Sponsor.Lead.Name)
	if sponsor != "" {
		w.authors = []person{{literal: sponsor}}
	}
	w.more = details{
		Status: field(p.Status.Overall), Phases: shortList(p.Design.Phases), Conditions: shortList(p.Conditions.List), Sponsor: sponsor,
		Enrollment: int(p.Design.Enrollment.Count), Started: isoDate(p.Status.Start.Date).text(), Completed: isoDate(p.Status.Complete.Date).text(),
		HasResults: s.HasResults,
	}
	var interventions []string
	for _, i := range p.Arms.Interventions {
		interventions = append(interventions, strings.TrimPrefix(strings.ToLower(i.Type)+": "+i.Name, ": "))
	}
	w.more.Interventions = shortList(interventions)
	return w
}

// shortList returns the first texts of a list, each shortened.
func shortList(texts []string) []string {
	var out []string
	for _, t := range texts {
		if t = clip(plainText(t), maxName/2); t != "" && len(out) < maxListed {
			out = append(out, t)
		}
	}
	return out
}
