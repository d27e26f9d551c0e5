package server

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/capacity"
)

// Periods of benchmarks, in milliseconds.
const (
	benchmarkLead    = 90_000         // from the plan to the start: several times as long as agents wait between two questions
	minBenchmarkLead = 5_000          // for agents that were told to ask
	maxBenchmarkLead = 600_000        // which is what agents believe
	benchmarkGrace   = 60_000         // for which a late answer is taken, to be recorded as late
	benchmarkOpening = 120_000        // from the draw to the last instant of the opening
	minBenchmarkLife = 120_000        // from the start to the last instant of an answer, and more where there is more to do
	slowestBenchmark = 200_000        // score, in thousands of multiply-adds a second, below which nobody waits for the end
	MinRepeat        = 60 * 60        // seconds between two rounds of a plan
	MaxRepeat        = 30 * 24 * 3600 // since a measure stands for that long
)

// Limits of benchmarks.
const (
	maxRootsBody = capacity.MaxSteps*32*4/3 + MaxJSON // bytes of a request with commitments
	maxMeasures  = 1024                               // that a comparison looks at: of each node the newest
)

type (
	rootsInput struct {
		Body client.BenchmarkRoots
	}
	openingInput struct {
		RawBody []byte `contentType:"application/json"`
	}
	planInput struct {
		Body client.PlanRequest
	}
	measuresInput struct {
		Nodes []string `query:"node,explode" required:"true" doc:"id of a node; several are taken for those of one owner"`
	}
)

// benchmarkOperations are what nodes and operators ask about benchmarks (package market/capacity).
func (s *Server) benchmarkOperations(api huma.API) {
	register(s, api, operation(http.MethodGet, "/v1/benchmark", "benchmark", "Ask what benchmark is planned, and for its challenge once it has started", http.StatusOK, 0, schemeNode),
		func(ctx context.Context, _ *empty) (*answer[client.Benchmark], error) {
			return answered(s.benchmark(ctx, callerOf(ctx).node))
		})
	register(s, api, operation(http.MethodPost, "/v1/benchmark/roots", "commitBenchmark", "Commit to a chain, which ends its time, and get what is drawn", http.StatusCreated, maxRootsBody, schemeNode),
		func(ctx context.Context, in *rootsInput) (*answer[capacity.Draw], error) {
			return answered(s.commitBenchmark(ctx, callerOf(ctx).node, in.Body))
		})
	register(s, api, operation(http.MethodPost, "/v1/benchmark/opening", "openBenchmark", "Open what was drawn, and get the result", http.StatusCreated, capacity.MaxOpening, schemeNode),
		func(ctx context.Context, in *openingInput) (*answer[capacity.Result], error) {
			return answered(s.openBenchmark(ctx, callerOf(ctx).node, bytes.Clone(in.RawBody)))
		})
	register(s, api, operation(http.MethodPost, "/v1/benchmarks", "planBenchmark", "Challenge nodes at one instant", http.StatusCreated, MaxJSON, schemeAdmin),
		func(ctx context.Context, in *planInput) (*answer[client.Planned], error) {
			return answered(s.planBenchmark(ctx, in.Body))
		})
	register(s, api, operation(http.MethodGet, "/v1/benchmarks", "benchmarks", "Ask what benchmarks of nodes came to", http.StatusOK, 0, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *measuresInput) (*answer[client.Measured], error) {
			return answered(s.measured(ctx, callerOf(ctx), in.Nodes))
		})
}

// nowMS returns the server's clock, Unix time in milliseconds.
func (s *Server) nowMS() int64 { return s.now().UnixMilli() }

// drawDigest returns 32 random bytes.
func (s *Server) drawDigest() (d canon.Digest, err error) {
	b, err := s.draw(len(d))
	copy(d[:], b)
	return d, err
}

// planBenchmark challenges nodes at one instant, and has that repeated where it is asked for.
func (s *Server) planBenchmark(ctx context.Context, r client.PlanRequest) (client.Planned, error) {
	nodes := slices.Sorted(slices.Values(r.Nodes))
	switch {
	case len(nodes) < 1 || len(nodes) > capacity.MaxNodes:
		return client.Planned{}, refuse(codeMalformed, "%d nodes, want 1 to %d", len(nodes), capacity.MaxNodes)
	case len(slices.Compact(slices.Clone(nodes))) != len(nodes):
		return client.Planned{}, refuse(codeMalformed, "a node is named twice")
	case r.In != 0 && (r.In < minBenchmarkLead/1000 || r.In > maxBenchmarkLead/1000):
		return client.Planned{}, refuse(codeMalformed, "in %s, want %s to %s", inWords(r.In), inWords(minBenchmarkLead/1000), inWords(maxBenchmarkLead/1000))
	case r.Every != 0 && (r.Every < MinRepeat || r.Every > MaxRepeat):
		return client.Planned{}, refuse(codeMalformed, "every %s, want %s to %s", inWords(r.Every), inWords(MinRepeat), inWords(MaxRepeat))
	}
	shape, err := capacity.ShapeFor(r.Memory)
	if err != nil {
		return client.Planned{}, refuse(codeMalformed, "%v", err)
	}
	var p client.Planned
	err = s.store.Tx(ctx, func(tx *Tx) error {
		if p, err = s.beginRound(ctx, tx, nodes, shape, cmp.Or(r.In*1000, benchmarkLead)); err != nil {
			return err
		}
		id := strings.Join(nodes, " ")
		if r.Every == 0 {
			_, err = tx.SQL.ExecContext(ctx, `DELETE FROM benchmark_plan WHERE id = $1`, id)
			return err
		}
		due, err := s.nextRound(p.Starts, r.Every*1000)
		if err != nil {
			return err
		}
		_, err = tx.SQL.ExecContext(ctx, `INSERT INTO benchmark_plan(id, memory, every, due) VALUES ($1, $2, $3, $4)
			ON CONFLICT (id) DO UPDATE SET memory = excluded.memory, every = excluded.every, due = excluded.due`, id, r.Memory, r.Every*1000, due)
		return err
	})
	return p, err
}

// inWords says seconds as people write a duration.
func inWords(seconds int64) string {
	const most = int64(math.MaxInt64 / time.Second)
	return (time.Duration(min(max(seconds, -most), most)) * time.Second).String()
}

// nextRound returns an instant that nobody can know: half to one and a half of a period after another one.
func (s *Server) nextRound(after, every int64) (int64, error) {
	n, err := s.drawNumber(every)
	return after + every/2 + n, err
}

// drawNumber returns a random number below n.
func (s *Server) drawNumber(n int64) (int64, error) {
	b, err := s.draw(8)
	if err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(b) % uint64(n)), nil
}

// beginRound logs a challenge for each node, all of one instant, each with a seed of its own.
func (s *Server) beginRound(ctx context.Context, tx *Tx, nodes []string, shape capacity.Shape, lead int64) (client.Planned, error) {
	round, err := s.drawDigest()
	if err != nil {
		return client.Planned{}, err
	}
	log, err := s.accepting(ctx, tx)
	if err != nil {
		return client.Planned{}, err
	}
	now := s.nowMS()
	p := client.Planned{Round: round, Starts: now + lead}
	for _, node := range nodes {
		var revoked int64
		err := tx.SQL.QueryRowContext(ctx, `SELECT revoked FROM node WHERE id = $1`+s.store.db.ForUpdate(), node).Scan(&revoked)
		if errors.Is(err, sql.ErrNoRows) || err == nil && revoked != 0 {
			return p, refuse(codeNotFound, "no such node: %.80q", node)
		}
		if err != nil {
			return p, fmt.Errorf("look up node %s: %w", node, err)
		}
		var open bool
		if err := tx.SQL.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM benchmark WHERE node = $1 AND log = $2 AND due IS NOT NULL)`, node, log.Number).Scan(&open); err != nil {
			return p, fmt.Errorf("look up benchmarks: %w", err)
		}
		if open {
			return p, refuse(codeTooMany, "a benchmark of node %s is not over: it is one at a time", node)
		}
		c := capacity.Challenge{Round: round, Nodes: len(nodes), Node: node, Shape: shape, Starts: p.Starts}
		c.Expires = c.Starts + max(minBenchmarkLife, shape.Work()/slowestBenchmark)
		if c.Seed, err = s.drawDigest(); err != nil {
			return p, err
		}
		digest, err := s.logBenchmark(ctx, tx, capacity.Record{Challenge: &c})
		if err != nil {
			return p, err
		}
		if err := insertBenchmark(ctx, tx.SQL, log.Number, c, digest); err != nil {
			return p, err
		}
	}
	return p, nil
}

// logBenchmark logs a record, and the bodies that it rests on.
func (s *Server) logBenchmark(ctx context.Context, tx *Tx, r capacity.Record, refs ...canon.Digest) (canon.Digest, error) {
	r.Type = capacity.RecordType
	body, digest, err := r.Bytes()
	if err != nil {
		return digest, err
	}
	tx.PutBlob(body)
	_, _, err = tx.Append(ctx, Draft{Kind: ledger.KindBenchmark, Stream: ledger.StreamVerifier, Time: s.time(), Body: digest, Refs: append([]canon.Digest{}, refs...)})
	return digest, err
}

// benchmarkRow is a benchmark that is not over.
type benchmarkRow struct {
	challenge canon.Digest
	draw      canon.Digest // zero: no commitments came
	due       int64
}

// openRow returns the benchmark of a node that is not over; without one, a refusal.
func (s *Server) openRow(ctx context.Context, q querier, node, lock string) (r benchmarkRow, err error) {
	err = q.QueryRowContext(ctx, `SELECT challenge, draw, due FROM benchmark WHERE node = $1 AND due IS NOT NULL AND log = (SELECT MAX(number) FROM log)`+lock, node).
		Scan(&r.challenge, &r.draw, &r.due)
	if errors.Is(err, sql.ErrNoRows) {
		return r, refuse(client.CodeChallengeExpired, "no benchmark is open")
	}
	if err != nil {
		return r, fmt.Errorf("look up a benchmark: %w", err)
	}
	return r, nil
}

// readRecord reads a record of the log.
func (s *Server) readRecord(ctx context.Context, digest canon.Digest) (capacity.Record, error) {
	data, err := s.store.Blob(ctx, digest)
	if err != nil {
		return capacity.Record{}, fmt.Errorf("benchmark record %s: %w", digest, err)
	}
	return capacity.ParseRecord(data)
}

// benchmark says what is planned for a node. The seed comes with the challenge, when its time runs.
func (s *Server) benchmark(ctx context.Context, node string) (client.Benchmark, error) {
	b := client.Benchmark{Now: s.nowMS()}
	row, err := s.openRow(ctx, s.store.db.Reader(), node, "")
	var none *problem
	if errors.As(err, &none) {
		return b, nil
	}
	if err != nil {
		return b, err
	}
	r, err := s.readRecord(ctx, row.challenge)
	if err != nil {
		return b, err
	}
	b.Starts, b.Expires, b.Shape = r.Challenge.Starts, r.Challenge.Expires, &r.Challenge.Shape
	if b.Now >= b.Starts {
		b.Challenge = r.Challenge
	}
	if !row.draw.IsZero() {
		d, err := s.readRecord(ctx, row.draw)
		if err != nil {
			return b, err
		}
		b.Drawn = d.Draw
	}
	return b, nil
}

// commitBenchmark takes the commitments of a node: that ends its time. Then it draws what the node has to open.
func (s *Server) commitBenchmark(ctx context.Context, node string, given client.BenchmarkRoots) (capacity.Draw, error) {
	received := s.nowMS()
	seed, err := s.drawDigest()
	if err != nil {
		return capacity.Draw{}, err
	}
	var out capacity.Draw
	err = s.store.Tx(ctx, func(tx *Tx) error {
		row, err := s.openRow(ctx, tx.SQL, node, s.store.db.ForUpdate())
		if err != nil {
			return err
		}
		r, err := s.readRecord(ctx, row.challenge)
		if err != nil {
			return err
		}
		c := r.Challenge
		switch {
		case given.Challenge != row.challenge:
			return refuse(client.CodeChallengeExpired, "the open challenge is not %s", given.Challenge)
		case received < c.Starts:
			return refuse(codeMalformed, "it has not started")
		case len(given.Roots) != c.Shape.Steps*len(canon.Digest{}):
			return refuse(codeMalformed, "%d bytes of roots, want %d for each of %d steps", len(given.Roots), len(canon.Digest{}), c.Shape.Steps)
		}
		if !row.draw.IsZero() {
			d, err := s.readRecord(ctx, row.draw)
			if err != nil {
				return err
			}
			if out = *d.Draw; out.Roots != canon.Sum(given.Roots) {
				return refuse(client.CodeChallengeUsed, "other commitments came before")
			}
			return nil
		}
		if received > c.Expires+benchmarkGrace {
			return refuse(client.CodeChallengeExpired, "it expired at %s", canon.Time(c.Expires/1000))
		}
		out = capacity.Draw{Challenge: row.challenge, Roots: canon.Sum(given.Roots), Received: received, Seed: seed, Expires: received + benchmarkOpening}
		digest, err := s.logBenchmark(ctx, tx, capacity.Record{Draw: &out}, row.challenge)
		if err != nil {
			return err
		}
		tx.PutPart(digest, given.Roots)
		return drawBenchmark(ctx, tx.SQL, out, digest)
	})
	return out, err
}

// openBenchmark takes an opening and judges. The same opening gets the same result, however often it is sent, for as long
// as it is the newest.
func (s *Server) openBenchmark(ctx context.Context, node string, opening []byte) (capacity.Result, error) {
	row, err := s.openRow(ctx, s.store.db.Reader(), node, "")
	var none *problem
	if errors.As(err, &none) {
		return s.openedBefore(ctx, node, canon.Sum(opening), none)
	}
	if err != nil {
		return capacity.Result{}, err
	}
	switch {
	case row.draw.IsZero():
		return capacity.Result{}, refuse(codeMalformed, "nothing was drawn: the commitments come first")
	case s.nowMS() > row.due:
		return capacity.Result{}, refuse(client.CodeChallengeExpired, "the draw is too old")
	}
	return s.endBenchmark(ctx, node, row, opening)
}

// openedBefore returns the newest result of a node, if it is on this opening.
func (s *Server) openedBefore(ctx context.Context, node string, opening canon.Digest, none *problem) (capacity.Result, error) {
	all, err := s.measures(ctx, s.store.db.Reader(), []string{node}, 1)
	if err != nil {
		return capacity.Result{}, err
	}
	if len(all) == 0 || all[0].Result.Opening != opening {
		return capacity.Result{}, none
	}
	return all[0].Result, nil
}

// endBenchmark judges what there is of a benchmark, and logs it. nil: no opening came.
func (s *Server) endBenchmark(ctx context.Context, node string, row benchmarkRow, opening []byte) (capacity.Result, error) {
	g := capacity.Given{Opening: opening}
	c, err := s.readRecord(ctx, row.challenge)
	if err != nil {
		return capacity.Result{}, err
	}
	g.Challenge = *c.Challenge
	on := row.challenge
	if !row.draw.IsZero() {
		d, err := s.readRecord(ctx, row.draw)
		if err != nil {
			return capacity.Result{}, err
		}
		g.Draw, on = d.Draw, row.draw
		if g.Roots, err = s.store.Blob(ctx, d.Draw.Roots); err != nil {
			return capacity.Result{}, fmt.Errorf("commitments: %w", err)
		}
	}
	r := capacity.Judge(g)
	err = s.store.Tx(ctx, func(tx *Tx) error {
		now, err := s.openRow(ctx, tx.SQL, node, s.store.db.ForUpdate())
		if err != nil {
			return err
		}
		if now != row {
			return refuse(codeBusy, "something else came of it meanwhile")
		}
		digest, err := s.logBenchmark(ctx, tx, capacity.Record{Result: &r}, on)
		if err != nil {
			return err
		}
		if !r.Opening.IsZero() {
			tx.PutPart(digest, opening)
		}
		if err := endBenchmarkRow(ctx, tx.SQL, r, digest); err != nil {
			return err
		}
		c, certified, err := s.certificateOf(ctx, tx.SQL, "", node)
		if err != nil || !certified {
			return err
		}
		return addWork(ctx, tx.SQL, workAssess, c.ID, "", s.time())
	})
	if err == nil {
		s.log.Info("benchmark", "node", node, "outcome", r.Outcome, "reason", r.Reason, "elapsed_ms", r.Elapsed, "score", r.Score)
	}
	return r, err
}

// benchmarksDue ends benchmarks that nobody answers any more, and makes the rounds of plans.
func (s *Server) benchmarksDue(ctx context.Context) error {
	return s.inTurn(ctx, RoleClock, func(ctx context.Context) error {
		now := s.nowMS()
		var due bool
		err := s.store.db.Reader().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM benchmark WHERE due < $1 AND log = (SELECT MAX(number) FROM log))
			OR EXISTS (SELECT 1 FROM benchmark_plan WHERE due <= $1)`, now).Scan(&due)
		if err != nil {
			return fmt.Errorf("look for benchmarks that are due: %w", err)
		}
		if !due {
			return nil
		}
		if err := s.headsFirst(ctx); err != nil {
			return err
		}
		return errors.Join(s.endDue(ctx), s.repeatDue(ctx))
	})
}

func (s *Server) endDue(ctx context.Context) error {
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT node FROM benchmark WHERE due < $1 AND log = (SELECT MAX(number) FROM log) ORDER BY due LIMIT $2`, s.nowMS(), MaxPage)
	if err != nil {
		return fmt.Errorf("look for benchmarks that are due: %w", err)
	}
	nodes, err := texts(rows)
	if err != nil {
		return fmt.Errorf("look for benchmarks that are due: %w", err)
	}
	var failed []error
	for _, node := range nodes {
		row, err := s.openRow(ctx, s.store.db.Reader(), node, "")
		if err == nil && row.due < s.nowMS() {
			_, err = s.endBenchmark(ctx, node, row, nil)
		}
		var other *problem
		switch {
		case err == nil, errors.As(err, &other): // an answer that came at the last instant is none of ours
		case s.mustStop(ctx, err) != nil:
			return err
		default: // the others end all the same
			failed = append(failed, fmt.Errorf("benchmark of node %s: %w", node, err))
		}
	}
	return errors.Join(failed...)
}

// texts reads a column.
func texts(rows *sql.Rows) (out []string, err error) {
	defer rows.Close()
	for rows.Next() {
		var t string
		if err := rows.Scan(&t); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, rows.Err()
}

// repeatDue makes the rounds that plans are due for. Of a plan with several nodes, chance takes either all of them or one
// alone, so that nobody knows beforehand which it is.
func (s *Server) repeatDue(ctx context.Context) error {
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT id FROM benchmark_plan WHERE due <= $1 ORDER BY due LIMIT $2`, s.nowMS(), MaxPage)
	if err != nil {
		return fmt.Errorf("look for plans of benchmarks: %w", err)
	}
	ids, err := texts(rows)
	if err != nil {
		return fmt.Errorf("look for plans of benchmarks: %w", err)
	}
	var failed []error
	for _, id := range ids {
		nodes := strings.Fields(id)
		n, err := s.drawNumber(int64(len(nodes)) + 1)
		if err != nil {
			return err
		}
		if n > 0 {
			nodes = nodes[n-1 : n]
		}
		err = s.store.Tx(ctx, func(tx *Tx) error {
			var memory int
			var every int64
			if err := tx.SQL.QueryRowContext(ctx, `SELECT memory, every FROM benchmark_plan WHERE id = $1`, id).Scan(&memory, &every); err != nil {
				return err
			}
			shape, err := capacity.ShapeFor(memory)
			if err != nil {
				return err
			}
			due, err := s.nextRound(s.nowMS(), every)
			if err != nil {
				return err
			}
			if _, err := tx.SQL.ExecContext(ctx, `UPDATE benchmark_plan SET due = $1 WHERE id = $2`, due, id); err != nil {
				return err
			}
			_, err = s.beginRound(ctx, tx, nodes, shape, benchmarkLead)
			return err
		})
		var refused *problem
		switch {
		case err == nil:
		case errors.As(err, &refused) && refused.code == codeNotFound: // a node is gone, and with it the plan
			s.log.Warn("benchmarks are no longer repeated", "nodes", id, "why", err)
			if err := s.store.Tx(ctx, func(tx *Tx) error {
				_, err := tx.SQL.ExecContext(ctx, `DELETE FROM benchmark_plan WHERE id = $1`, id)
				return err
			}); err != nil {
				return err
			}
		case errors.As(err, &refused): // it stays due until what stands against it has gone
		case s.mustStop(ctx, err) != nil:
			return err
		default: // the others are repeated all the same
			failed = append(failed, fmt.Errorf("repeat benchmarks of %.80q: %w", id, err))
		}
	}
	return errors.Join(failed...)
}

// measures returns what benchmarks of nodes came to, the newest first.
func (s *Server) measures(ctx context.Context, q querier, nodes []string, limit int) ([]capacity.Measure, error) {
	all := []capacity.Measure{}
	for _, node := range nodes {
		rows, err := q.QueryContext(ctx, `SELECT result FROM benchmark WHERE node = $1 AND result IS NOT NULL ORDER BY starts DESC LIMIT $2`, node, limit)
		if err != nil {
			return nil, fmt.Errorf("list benchmarks: %w", err)
		}
		results, err := digests(rows)
		if err != nil {
			return nil, fmt.Errorf("list benchmarks: %w", err)
		}
		for _, d := range results {
			r, err := s.readRecord(ctx, d)
			if err != nil {
				return nil, err
			}
			c, err := s.readRecord(ctx, r.Result.Challenge)
			if err != nil {
				return nil, err
			}
			all = append(all, capacity.Measure{Round: c.Challenge.Round, Nodes: c.Challenge.Nodes, Node: node, Starts: c.Challenge.Starts, Result: *r.Result})
		}
	}
	slices.SortStableFunc(all, func(a, b capacity.Measure) int { return cmp.Compare(b.Starts, a.Starts) })
	return all, nil
}

// credit returns what a node is credited with: by all that was measured of it and counts still, however many nodes somebody
// asks about.
func (s *Server) credit(ctx context.Context, q querier, node string, at canon.Time) (capacity.Measure, bool, error) {
	all, err := s.measures(ctx, q, []string{node}, maxMeasures)
	if err != nil {
		return capacity.Measure{}, false, err
	}
	m, ok := capacity.Credit(all, node, at)
	return m, ok, nil
}

// digests reads a column.
func digests(rows *sql.Rows) (out []canon.Digest, err error) {
	defer rows.Close()
	for rows.Next() {
		var d canon.Digest
		if err := rows.Scan(&d); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

// measured says what benchmarks of a caller's nodes came to, and what claims that makes.
func (s *Server) measured(ctx context.Context, who caller, nodes []string) (client.Measured, error) {
	nodes = slices.Compact(slices.Sorted(slices.Values(nodes)))
	if len(nodes) == 0 || len(nodes) > capacity.MaxNodes {
		return client.Measured{}, refuse(codeMalformed, "%d nodes, want 1 to %d", len(nodes), capacity.MaxNodes)
	}
	own := &filter{}
	own.among(`node.id`, nodes)
	who.ownNodes(own)
	var known int
	if err := s.store.db.Reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM node WHERE `+own.String(), own.args...).Scan(&known); err != nil {
		return client.Measured{}, fmt.Errorf("look for nodes: %w", err)
	}
	if known != len(nodes) {
		return client.Measured{}, refuse(codeNotFound, "no such node")
	}
	all, err := s.measures(ctx, s.store.db.Reader(), nodes, max(maxMeasures/len(nodes), 2*capacity.RoundsToShow))
	if err != nil {
		return client.Measured{}, err
	}
	m := client.Measured{Measures: all, Finding: capacity.Compare(all), Claims: []client.NodeClaim{}}
	for _, node := range nodes {
		if credit, ok, err := s.credit(ctx, s.store.db.Reader(), node, s.time()); err != nil {
			return client.Measured{}, err
		} else if ok {
			m.Claims = append(m.Claims, client.NodeClaim{Node: node, Claim: credit.Claim()})
		}
	}
	return m, nil
}

// What follows from the records of the log, in the table that is a cache of it: see state.go.

func insertBenchmark(ctx context.Context, tx *sql.Tx, log int64, c capacity.Challenge, record canon.Digest) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO benchmark(challenge, log, node, starts, expires, due) VALUES ($1, $2, $3, $4, $5, $6)`,
		record[:], log, c.Node, c.Starts, c.Expires, c.Expires+benchmarkGrace)
	if err != nil {
		return fmt.Errorf("store a benchmark: %w", err)
	}
	return nil
}

func drawBenchmark(ctx context.Context, tx *sql.Tx, d capacity.Draw, record canon.Digest) error {
	if _, err := tx.ExecContext(ctx, `UPDATE benchmark SET draw = $1, due = $2 WHERE challenge = $3`, record[:], d.Expires, d.Challenge[:]); err != nil {
		return fmt.Errorf("store a draw: %w", err)
	}
	return nil
}

func endBenchmarkRow(ctx context.Context, tx *sql.Tx, r capacity.Result, record canon.Digest) error {
	if _, err := tx.ExecContext(ctx, `UPDATE benchmark SET result = $1, due = NULL WHERE challenge = $2`, record[:], r.Challenge[:]); err != nil {
		return fmt.Errorf("store a result: %w", err)
	}
	return nil
}

func (b *rebuild) foldBenchmark(ctx context.Context, e ledger.Entry) error {
	body, err := b.old.Blob(ctx, e.Body)
	if err != nil {
		return err
	}
	r, err := capacity.ParseRecord(body)
	switch {
	case err != nil:
		return err
	case r.Challenge != nil:
		return insertBenchmark(ctx, b.dst, b.log, *r.Challenge, e.Body)
	case r.Draw != nil:
		return drawBenchmark(ctx, b.dst, *r.Draw, e.Body)
	}
	return endBenchmarkRow(ctx, b.dst, *r.Result, e.Body)
}
