package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/verifier"
)

// Work that waits for the clock, see [Server.vetDue].
const (
	workDecided = "decided" // a verdict on evidence of a node; the argument is decidedWork
	workAssess  = "assess"  // something may count otherwise for a certificate
	workRules   = "rules"   // parameters take effect: everything counts anew; the argument is their body
	workRevoked = "revoked" // a node was revoked: its devices are nobody's, and it has no certificate any more
)

// decidedWork is what a verdict leaves to be followed up.
type decidedWork struct {
	Evidence canon.Digest      `json:"evidence"`
	Devices  []attest.Identity `json:"devices,omitzero"` // that it proves
}

// addWork leaves work to the clock. The same work once more is no more work.
func addWork(ctx context.Context, tx statements, kind, id, arg string, due canon.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO work(kind, id, arg, due) VALUES ($1, $2, $3, $4)
		ON CONFLICT (kind, id, arg) DO UPDATE SET due = CASE WHEN excluded.due < work.due THEN excluded.due ELSE work.due END`, kind, id, arg, int64(due))
	if err != nil {
		return fmt.Errorf("leave work: %w", err)
	}
	return nil
}

// job is something that is due: work, or a machine whose time has come.
type job struct{ kind, id, arg string }

// dueMachine is the kind of a job that is a machine's: the argument is the machine's kind.
const dueMachine = "machine"

// vetDue turns everything of vetting that is due into events, where that is this process's turn.
func (s *Server) vetDue(ctx context.Context) error { return s.inTurn(ctx, RoleClock, s.vetAll) }

// vetAll makes the events that are due, vettingBatch of them in one transaction. Where that fails it makes each alone, and
// puts off what fails alone, so that one machine that is stuck stops no other.
func (s *Server) vetAll(ctx context.Context) error {
	for {
		jobs, err := s.jobsDue(ctx)
		if err != nil || len(jobs) == 0 {
			return err
		}
		if err := s.headsFirst(ctx); err != nil { // this process, or its clock, may have stood still
			return err
		}
		err = s.sit(ctx, func(v *sitting) error {
			for _, j := range jobs {
				if err := v.do(ctx, j); err != nil {
					return err
				}
			}
			return nil
		})
		s.store.testingOnlyStep("followed")
		if err == nil {
			continue
		}
		if stop := s.mustStop(ctx, err); stop != nil {
			return stop
		}
		for _, j := range jobs {
			err := s.sit(ctx, func(v *sitting) error { return v.do(ctx, j) })
			if err == nil {
				continue
			}
			if stop := s.mustStop(ctx, err); stop != nil {
				return stop
			}
			s.alarm("an event is put off", "of", j.kind, "id", j.id, "error", err)
			if err := s.putOffJob(ctx, j); err != nil {
				return err
			}
		}
	}
}

// mustStop returns an error that no other job would fare better with, or nil.
func (s *Server) mustStop(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrNotHeld), errors.Is(err, errClock), sqldb.Unavailable(err):
		return err
	}
	return nil
}

func (s *Server) putOffJob(ctx context.Context, j job) error {
	until := int64(s.time() + seconds(RetryEvent))
	return s.store.Tx(ctx, func(tx *Tx) (err error) {
		if j.kind == dueMachine {
			_, err = tx.SQL.ExecContext(ctx, `UPDATE machine SET wait = $1 WHERE kind = $2 AND id = $3`, until, j.arg, j.id)
		} else {
			_, err = tx.SQL.ExecContext(ctx, `UPDATE work SET due = $1 WHERE kind = $2 AND id = $3 AND arg = $4`, until, j.kind, j.id, j.arg)
		}
		return err
	})
}

func (s *Server) jobsDue(ctx context.Context) (jobs []job, err error) {
	now := int64(s.time())
	for _, query := range []string{
		`SELECT kind, id, arg FROM work WHERE due <= $1 ORDER BY due, kind, id, arg LIMIT $2`,
		`SELECT '` + dueMachine + `', id, kind FROM machine WHERE due <= $1 AND wait <= $1 ORDER BY due, kind, id LIMIT $2`,
	} {
		rows, err := s.store.db.Reader().QueryContext(ctx, query, now, vettingBatch)
		if err != nil {
			return nil, fmt.Errorf("look for what is due: %w", err)
		}
		for rows.Next() {
			var j job
			if err := rows.Scan(&j.kind, &j.id, &j.arg); err != nil {
				rows.Close()
				return nil, fmt.Errorf("look for what is due: %w", err)
			}
			jobs = append(jobs, j)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return nil, fmt.Errorf("look for what is due: %w", err)
		}
		if len(jobs) > 0 { // what happened comes before what time brings
			return jobs, nil
		}
	}
	return nil, nil
}

// do does one job, unless it was done meanwhile.
func (v *sitting) do(ctx context.Context, j job) error {
	if j.kind == dueMachine {
		return v.tick(ctx, j.arg, j.id)
	}
	done, err := v.sql.ExecContext(ctx, `DELETE FROM work WHERE kind = $1 AND id = $2 AND arg = $3`, j.kind, j.id, j.arg)
	if err != nil {
		return fmt.Errorf("take work: %w", err)
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return err
	}
	switch j.kind {
	case workDecided:
		var w decidedWork
		if err := canon.Unmarshal([]byte(j.arg), &w); err != nil {
			return err
		}
		return v.decided(ctx, j.id, w)
	case workAssess:
		return v.assess(ctx, j.id)
	case workRules:
		_, err := v.sql.ExecContext(ctx, `INSERT INTO work(kind, id, arg, due) SELECT 'assess', id, '', CAST($1 AS BIGINT) FROM machine
			WHERE kind = 'certificate' AND due IS NOT NULL ON CONFLICT (kind, id, arg) DO NOTHING`, int64(v.now))
		if err != nil {
			return fmt.Errorf("leave work: %w", err)
		}
		return nil
	case workRevoked:
		if err := v.release(ctx, j.id); err != nil {
			return err
		}
		return v.endOf(ctx, j.id)
	}
	return fmt.Errorf("work %q is not known to this build", j.kind)
}

// tick lets a machine know that its time has come.
func (v *sitting) tick(ctx context.Context, kind, id string) error {
	var due sql.NullInt64
	err := v.sql.QueryRowContext(ctx, `SELECT due FROM machine WHERE kind = $1 AND id = $2`, kind, id).Scan(&due)
	if err != nil || !due.Valid || canon.Time(due.Int64) > v.now {
		return err
	}
	switch kind {
	case machineCertificate:
		c, err := v.certificate(ctx, id)
		if err != nil {
			return err
		}
		act := vetting.Act{Act: vetting.ActDue}
		if c.Live() {
			return v.weigh(ctx, c, act)
		}
		return v.act(ctx, c.Place.Provider, c.ID, act)
	case machineDevice:
		d, err := loadMachine[vetting.DeviceState](ctx, v.sql, "", kind, id)
		if err != nil {
			return err
		}
		return v.sighting(ctx, vetting.Sighting{Device: id, Event: vetting.DeviceDue, Provider: d.Holder.Provider})
	}
	return fmt.Errorf("machine %q is not known to this build", kind)
}

// certificate returns a certificate, or refuses.
func (v *sitting) certificate(ctx context.Context, id string) (vetting.Certificate, error) {
	c, err := loadMachine[vetting.Certificate](ctx, v.sql, v.s.store.db.ForUpdate(), machineCertificate, id)
	if errors.Is(err, errNoMachine) {
		return c, refuse(codeNotFound, "no such certificate")
	}
	return c, err
}

// act logs an act on a certificate. What does not fit its state is a refusal to whoever wanted it.
func (v *sitting) act(ctx context.Context, provider, id string, a vetting.Act, refs ...canon.Digest) error {
	a.Type, a.Certificate = vetting.ActType, id
	if err := v.certificateEvent(ctx, provider, a, refs...); err != nil {
		return err
	}
	v.afterwards(func() { v.s.log.Info("certificate", "act", a.Act, "certificate", id, "provider", provider) })
	return nil
}

// weigh completes an act with what counts now, and logs it behind what was observed.
func (v *sitting) weigh(ctx context.Context, c vetting.Certificate, a vetting.Act) error {
	o, err := v.observe(ctx, c)
	if err != nil {
		return err
	}
	document := vetting.Observation{Type: vetting.ObservationType, Certificate: c.ID, At: v.now, Observed: o}
	body, err := canon.Marshal(document)
	if err != nil {
		return err
	}
	if err := v.certificateEvent(ctx, c.Place.Provider, document); err != nil {
		return err
	}
	a.Standing = v.registry.Stand(c.Place, c.Assertions, o, v.history.At(v.now), v.now)
	return v.act(ctx, c.Place.Provider, c.ID, a, canon.Sum(body))
}

// assess weighs a certificate that stands. Of any other there is nothing to weigh.
func (v *sitting) assess(ctx context.Context, id string) error {
	c, err := v.certificate(ctx, id)
	if err != nil || !c.Live() {
		return err
	}
	return v.weigh(ctx, c, vetting.Act{Act: vetting.ActAssess})
}

// observe collects what the server knows of a place.
func (v *sitting) observe(ctx context.Context, c vetting.Certificate) (o vetting.Observed, err error) {
	q := v.history.At(v.now)
	if o.Stake, o.ContactHours, err = v.s.facts(ctx, v.sql, c.Place.Provider); err != nil {
		return o, err
	}
	if o.Witnesses, o.Quorum, err = v.s.cosigners(ctx); err != nil {
		return o, err
	}
	for _, d := range c.Place.Devices {
		state, err := loadMachine[vetting.DeviceState](ctx, v.sql, "", machineDevice, d.ID)
		if err != nil && !errors.Is(err, errNoMachine) {
			return o, err
		}
		if state.ContestedBy(c.Place.Host) {
			o.Contested = append(o.Contested, d.ID)
		}
	}
	if c.Place.Host == "" {
		return o, nil
	}
	if o.Record, err = v.record(ctx, c, q); err != nil {
		return o, err
	}
	if o.Answered, o.Shown, err = v.heard(ctx, c.Place); err != nil {
		return o, err
	}
	a, body, err := v.s.lastAppraisal(ctx, v.sql, c.Place.Host)
	if err == nil && !body.IsZero() {
		o.Hardware = vetting.Axis(a.Claims, a.AsOf, body, q)
	}
	if err != nil {
		return o, err
	}
	credit, ok, err := v.s.credit(ctx, v.sql, c.Place.Host, v.now)
	if ok {
		o.Measured, o.MeasuredAt = credit.Result.Score, canon.Time(credit.Starts/1000)
	}
	return o, err
}

// heard returns when a host sent its last evidence, and which devices it showed last, where they are not those of the place.
func (v *sitting) heard(ctx context.Context, p vetting.Place) (answered canon.Time, shown []string, err error) {
	var last sql.NullInt64
	if err := v.sql.QueryRowContext(ctx, `SELECT MAX(received) FROM submission WHERE node = $1`, p.Host).Scan(&last); err != nil {
		return 0, nil, fmt.Errorf("look for the last evidence of %s: %w", p.Host, err)
	}
	err = each(ctx, v.tx.SQL, `SELECT kind, value FROM shown WHERE node = $1`, []any{p.Host}, func(scan func(...any) error) error {
		var kind string
		var value []byte
		err := scan(&kind, &value)
		shown = append(shown, vetting.NewDevice(kind, value, nil).ID)
		return err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("read what %s showed: %w", p.Host, err)
	}
	slices.Sort(shown)
	return canon.Time(last.Int64), p.Others(shown), nil
}

// facts returns what the operator found out about a provider.
func (s *Server) facts(ctx context.Context, q querier, provider string) (stake bool, hours int64, err error) {
	var n int64
	err = q.QueryRowContext(ctx, `SELECT stake, contact_hours FROM provider WHERE id = $1`, provider).Scan(&n, &hours)
	if errors.Is(err, sql.ErrNoRows) {
		return false, 0, nil
	}
	return n == 1, hours, err
}

// cosigners counts who cosigned the newest checkpoint, and reports whether they are a quorum.
func (s *Server) cosigners(ctx context.Context) (int64, bool, error) {
	if s.witnesses == nil {
		return 0, false, nil
	}
	logs, err := s.store.Logs(ctx)
	if err != nil {
		return 0, false, err
	}
	p, err := logs[len(logs)-1].Published(ctx)
	for n := len(logs) - 2; n >= 0 && errors.Is(err, fs.ErrNotExist); n-- { // of one that begins nothing is published yet
		p, err = logs[n].Published(ctx)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	c, err := s.witnesses.policy.ReadCosigned(p.Note, ledger.Period{Until: canon.At(s.now()) + ledger.ClockSlack})
	if err != nil {
		return 0, false, nil // it bears no quorum
	}
	return int64(len(c.By)), true, nil
}

// lastAppraisal returns the appraisal of a node's evidence that was decided on last, and the digest of its bytes; a zero
// digest where there is none, or it was erased.
func (s *Server) lastAppraisal(ctx context.Context, q querier, node string) (a verifier.Appraisal, body canon.Digest, err error) {
	err = q.QueryRowContext(ctx, `SELECT appraisal FROM appraised WHERE node = $1`, node).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return a, canon.Digest{}, nil
	}
	if err != nil {
		return a, body, fmt.Errorf("read the last appraisal of %s: %w", node, err)
	}
	return s.appraisal(ctx, body)
}

// appraisal returns an appraisal and the digest of its bytes; a zero digest for none, and for one that was erased.
func (s *Server) appraisal(ctx context.Context, body canon.Digest) (a verifier.Appraisal, _ canon.Digest, err error) {
	if body.IsZero() {
		return a, body, nil
	}
	data, err := s.store.Blob(ctx, body)
	if wasErased(err) {
		return a, canon.Digest{}, nil
	}
	if err == nil {
		a, err = verifier.ParseAppraisal(data)
	}
	return a, body, err
}

// record counts a host's days, and how much of the last ones its evidence covers. A host answers from each piece of
// evidence for as long as evidence may be old.
func (v *sitting) record(ctx context.Context, c vetting.Certificate, q vetting.Parameters) (r vetting.Record, err error) {
	var first sql.NullInt64
	err = v.sql.QueryRowContext(ctx, `SELECT MIN(received) FROM submission WHERE node = $1`, c.Place.Host).Scan(&first)
	if err != nil || !first.Valid {
		return r, err
	}
	of := vetting.Span{From: max(canon.Time(first.Int64), v.now-canon.Time(vetting.UptimeSpan)), Until: v.now}
	if r.Days = int64(v.now-canon.Time(first.Int64)) / (24 * 3600); r.Days == 0 {
		return r, nil
	}
	// Pieces that are no further apart than evidence may be old cover all between them, so that of many the first and the last
	// are enough.
	rows, err := v.sql.QueryContext(ctx, `SELECT MIN(received), MAX(received) FROM submission WHERE node = $1 AND received >= $2
		GROUP BY received / CAST($3 AS BIGINT) ORDER BY 1`, c.Place.Host, int64(of.From)-q.EvidenceAge, q.EvidenceAge)
	if err != nil {
		return r, err
	}
	defer rows.Close()
	var answered []vetting.Span
	for rows.Next() {
		var first, last canon.Time
		if err := rows.Scan((*int64)(&first), (*int64)(&last)); err != nil {
			return r, err
		}
		answered = append(answered, vetting.Span{From: first, Until: last + canon.Time(q.EvidenceAge)})
	}
	r.Uptime, _ = vetting.Uptime(answered, c.Windows, of)
	return r, rows.Err()
}

// decided follows a verdict up: the devices that the evidence proves were seen on the node, and what its certificate says
// of the hardware is weighed anew. Devices of nodes that nobody certifies are of no interest, but where somebody else holds
// them.
func (v *sitting) decided(ctx context.Context, node string, w decidedWork) error {
	c, certified, err := v.s.certificateOf(ctx, v.sql, "", node)
	if err != nil {
		return err
	}
	provider := vetting.Unaffiliated
	if certified {
		provider = c.Place.Provider
	}
	for _, id := range w.Devices {
		device := vetting.NewDevice(id.Kind, id.Value, nil).ID
		state, err := loadMachine[vetting.DeviceState](ctx, v.sql, "", machineDevice, device)
		if err != nil && !errors.Is(err, errNoMachine) {
			return err
		}
		if !state.WorthLogging(node, certified, v.now) {
			continue
		}
		of := provider // of this device: others may be held in another's name
		if state.Status != vetting.Released && state.Holder.Host == node {
			of = state.Holder.Provider
		}
		if err := v.sighting(ctx, vetting.Sighting{Device: device, Event: vetting.DeviceSeen, Provider: of, Host: node, Evidence: w.Evidence}); err != nil {
			return err
		}
	}
	if !certified || !c.Live() {
		return nil
	}
	return v.weigh(ctx, c, vetting.Act{Act: vetting.ActAssess})
}

// sighting logs an event of a device. Whoever contests it since then, or does so no more, is weighed anew.
func (v *sitting) sighting(ctx context.Context, s vetting.Sighting) error {
	before, err := loadMachine[vetting.DeviceState](ctx, v.sql, "", machineDevice, s.Device)
	if err != nil && !errors.Is(err, errNoMachine) {
		return err
	}
	s.Type = vetting.SightingType
	if err := v.certificateEvent(ctx, s.Provider, s); err != nil {
		return err
	}
	after, err := loadMachine[vetting.DeviceState](ctx, v.sql, "", machineDevice, s.Device)
	if err != nil {
		return err
	}
	for _, c := range slices.Concat(before.Challengers, after.Challengers) {
		if before.ContestedBy(c.Host) == after.ContestedBy(c.Host) {
			continue
		}
		if after.ContestedBy(c.Host) {
			v.afterwards(func() {
				v.s.alarm("a device is contested", "device", s.Device, "holder", after.Holder.Host, "newcomer", c.Host)
			})
		}
		if s.Event == vetting.DeviceSeen && c.Host == s.Host {
			continue // it is weighed with its evidence
		}
		if err := v.reassess(ctx, c.Host); err != nil {
			return err
		}
	}
	return nil
}

// reassess leaves work for the certificate of a host, if it has one.
func (v *sitting) reassess(ctx context.Context, host string) error {
	c, ok, err := v.s.certificateOf(ctx, v.sql, "", host)
	if err != nil || !ok {
		return err
	}
	return addWork(ctx, v.sql, workAssess, c.ID, "", v.now)
}

// endOf ends the certificate of a node that was revoked: it shows nothing any more, and comes back as another one.
func (v *sitting) endOf(ctx context.Context, node string) error {
	c, ok, err := v.s.certificateOf(ctx, v.sql, v.s.store.db.ForUpdate(), node)
	if err != nil || !ok || c.Ended() || c.Status == vetting.Revoked || c.Status == vetting.Rejected {
		return err
	}
	return v.act(ctx, c.Place.Provider, c.ID, vetting.Act{Act: vetting.ActEnd, By: vetting.Operator})
}

// release gives up what a node holds that was revoked, and withdraws what it contests.
func (v *sitting) release(ctx context.Context, node string) error {
	held, err := machines[vetting.DeviceState](ctx, v.sql, `host = $1 AND kind = 'device' AND due IS NOT NULL`, node)
	if err != nil {
		return err
	}
	for _, d := range held {
		if err := v.sighting(ctx, vetting.Sighting{Device: d.Device, Event: vetting.DeviceRelease, Provider: d.Holder.Provider, Host: node, By: vetting.Operator}); err != nil {
			return err
		}
	}
	contested, err := machines[vetting.DeviceState](ctx, v.sql, `kind = 'device' AND status = $1`, vetting.Contested)
	if err != nil {
		return err
	}
	for _, d := range contested {
		for _, c := range d.Challengers {
			if c.Host != node {
				continue
			}
			if err := v.sighting(ctx, vetting.Sighting{Device: d.Device, Event: vetting.DeviceRelease, Provider: c.Provider, Host: node, By: vetting.Operator}); err != nil {
				return err
			}
		}
	}
	return nil
}

// certificateOf returns the certificate that was drafted last for a host.
func (s *Server) certificateOf(ctx context.Context, q querier, lock, host string) (c vetting.Certificate, ok bool, err error) {
	var id string
	err = q.QueryRowContext(ctx, `SELECT certificate FROM vetted WHERE host = $1`, host).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return c, false, nil
	}
	if err == nil {
		c, err = loadMachine[vetting.Certificate](ctx, q, lock, machineCertificate, id)
	}
	if err != nil {
		return c, false, fmt.Errorf("read the certificate of %s: %w", host, err)
	}
	return c, true, nil
}

// party returns what the certificate of a node says of the party, for a verdict, and its bytes. The certificate stays as it
// is until the transaction ends. Without a certificate there are no claims and no bytes, and the node gets none until then:
// whoever drafts one holds the node's row as well.
func (s *Server) party(ctx context.Context, tx *Tx, node string) (claim.Set, []byte, error) {
	c, ok, err := s.certificateOf(ctx, tx.SQL, s.store.db.ForUpdate(), node)
	if err == nil && !ok {
		var revoked int64
		if err := tx.SQL.QueryRowContext(ctx, `SELECT revoked FROM node WHERE id = $1`+s.store.db.ForUpdate(), node).Scan(&revoked); err != nil {
			return nil, nil, fmt.Errorf("hold the node: %w", err)
		}
		c, ok, err = s.certificateOf(ctx, tx.SQL, s.store.db.ForUpdate(), node)
	}
	if err != nil || !ok {
		return nil, nil, err
	}
	p := c.Party()
	data, err := p.Canonical()
	return p.Claims, data, err
}

// reassessAbout leaves work for every certificate that something said of a unit may concern.
func (v *sitting) reassessAbout(ctx context.Context, u vetting.Subject, at canon.Time) error {
	where, args := `IN (SELECT certificate FROM place_unit WHERE kind = $2 AND id = $3)`, []any{int64(at), u.Kind.String(), u.ID}
	if u.Kind == vetting.UnitIssuer { // whose word may count for anybody
		where, args = `<> ''`, args[:1]
	}
	_, err := v.sql.ExecContext(ctx, `INSERT INTO work(kind, id, arg, due) SELECT 'assess', id, '', CAST($1 AS BIGINT) FROM machine
		WHERE kind = 'certificate' AND due IS NOT NULL AND id `+where+` ON CONFLICT (kind, id, arg) DO NOTHING`, args...)
	if err != nil {
		return fmt.Errorf("leave work: %w", err)
	}
	return nil
}

// candidates returns every certificate that stands, with what was observed last, and with the claims of its host's last
// appraisal where they are asked for.
func (s *Server) candidates(ctx context.Context, who caller, claims bool) (out []vetting.Candidate, err error) {
	own := &filter{}
	own.and(`machine.kind = 'certificate' AND machine.due IS NOT NULL`)
	who.ownMachines(own)
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT machine.state, COALESCE(observed.body, ''), appraised.appraisal FROM machine
		LEFT JOIN observed ON observed.certificate = machine.id LEFT JOIN appraised ON appraised.node = machine.host
		WHERE `+own.String()+` ORDER BY machine.id`, own.args...)
	if err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	defer rows.Close()
	var appraisals []canon.Digest
	for rows.Next() {
		var state, observed string
		var appraisal []byte
		if err := rows.Scan(&state, &observed, &appraisal); err != nil {
			return nil, fmt.Errorf("read certificates: %w", err)
		}
		var h vetting.Candidate
		if err := canon.Unmarshal([]byte(state), &h.Certificate); err != nil {
			return nil, fmt.Errorf("damaged database: certificate: %w", err)
		}
		if !h.Certificate.Live() {
			continue
		}
		if observed != "" {
			var o vetting.Observation
			if err := canon.Unmarshal([]byte(observed), &o); err != nil {
				return nil, fmt.Errorf("damaged database: observation of %s: %w", h.Certificate.ID, err)
			}
			h.Observed = o.Observed
		}
		var digest canon.Digest
		copy(digest[:], appraisal)
		out, appraisals = append(out, h), append(appraisals, digest)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || !claims {
		return out, err
	}
	for i, digest := range appraisals {
		a, _, err := s.appraisal(ctx, digest)
		if err != nil {
			return nil, err
		}
		out[i].Claims = a.Claims
	}
	return out, nil
}

// view is the registry and the parameters as they stand, for whoever only asks.
func (s *Server) view(ctx context.Context, f func(*vetting.Registry, *vetting.History, canon.Time) error) error {
	return s.sit(ctx, func(v *sitting) error { return f(v.registry, v.history, v.now) })
}
