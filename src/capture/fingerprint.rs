//! A query id of our own for servers that compute none (13, or `compute_query_id = off`): SQL text with literals and comments removed, hashed
//! with database and user. Pure.

/// Version of the rules below. Part of the hash, so that ids of different rules never meet.
const RULES: &[u8] = b"pgwt-sql-1\0";

/// SQL with comments dropped, white space folded and every literal replaced by `?`. `None` when a comment, identifier or string does not end
/// (the text was cut) or nothing is left.
pub fn normalise(sql: &str) -> Option<String> {
    let mut scan = Scan { rest: sql, out: String::with_capacity(sql.len().min(1024)), space: false };
    while let Some(c) = scan.rest.chars().next() {
        scan.step(c)?;
    }
    (!scan.out.is_empty()).then_some(scan.out)
}

/// The id of a normalised text within a database and for a user; never 0.
pub fn id(database: u32, user: u32, normalised: &str) -> i64 {
    let bytes = RULES.iter().copied().chain(database.to_be_bytes()).chain(user.to_be_bytes()).chain(normalised.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    if hash == 0 { 1 } else { hash as i64 }
}

struct Scan<'a> {
    rest: &'a str,
    out: String,
    space: bool,
}

const TIGHT: &str = ",()[]=<>+-*/%^;:.";

impl<'a> Scan<'a> {
    fn step(&mut self, c: char) -> Option<()> {
        if c.is_whitespace() {
            self.skip(c.len_utf8());
            self.space = true;
        } else if self.rest.starts_with("--") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.skip(end);
            self.space = true;
        } else if self.rest.starts_with("/*") {
            self.block_comment()?;
            self.space = true;
        } else if c == '\'' {
            self.quoted(false)?;
            self.literal();
        } else if c == '"' {
            let len = self.rest.get(1..)?.find('"')? + 2;
            let name = self.skip(len);
            self.put(name);
        } else if c == '$' && self.dollar_quoted()? {
            self.literal();
        } else if c == '$' {
            let digits = self.rest.get(1..).map_or(0, |r| r.find(|d: char| !d.is_ascii_digit()).unwrap_or(r.len()));
            let parameter = self.skip(1 + digits);
            self.put(parameter);
        } else if c.is_ascii_digit() || (c == '.' && self.rest.get(1..)?.starts_with(|d: char| d.is_ascii_digit())) {
            self.number();
            self.literal();
        } else if is_name(c) {
            self.word()?;
        } else {
            let text = self.skip(c.len_utf8());
            self.put(text);
        }
        Some(())
    }

    fn skip(&mut self, len: usize) -> &'a str {
        let (head, tail) = self.rest.split_at_checked(len).unwrap_or((self.rest, ""));
        self.rest = tail;
        head
    }

    fn put(&mut self, text: &str) {
        let tight = |c: Option<char>| c.is_none_or(|c| TIGHT.contains(c));
        if std::mem::take(&mut self.space) && !tight(self.out.chars().next_back()) && !tight(text.chars().next()) {
            self.out.push(' ');
        }
        self.out.push_str(text);
    }

    /// A list of literals of any length is the same query: `IN (1,2,3)` becomes `IN(?)`.
    fn literal(&mut self) {
        if self.out.ends_with("?,") {
            self.out.pop();
            self.space = false;
        } else {
            self.put("?");
        }
    }

    fn block_comment(&mut self) -> Option<()> {
        let mut depth = 0_u32;
        loop {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.skip(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.skip(2);
                if depth == 0 {
                    return Some(());
                }
            } else {
                let len = self.rest.chars().next()?.len_utf8();
                self.skip(len);
            }
        }
    }

    fn quoted(&mut self, backslashes: bool) -> Option<()> {
        self.skip(1);
        loop {
            let c = self.rest.chars().next()?;
            self.skip(c.len_utf8());
            match c {
                '\'' if self.rest.starts_with('\'') => {
                    self.skip(1);
                }
                '\'' => return Some(()),
                '\\' if backslashes => {
                    let next = self.rest.chars().next()?;
                    self.skip(next.len_utf8());
                }
                _ => {}
            }
        }
    }

    /// `Some(true)`: a dollar-quoted string was passed; `Some(false)`: it is something else (`$1`); `None`: it does not end.
    fn dollar_quoted(&mut self) -> Option<bool> {
        let Some(tag_len) = self.rest.get(1..).and_then(|r| r.find('$')) else { return Some(false) };
        let Some(tag) = self.rest.get(..tag_len + 2) else { return Some(false) };
        let inner = tag.trim_matches('$');
        if inner.starts_with(|c: char| c.is_ascii_digit()) || !inner.chars().all(is_name) {
            return Some(false);
        }
        let body = self.rest.get(tag.len()..)?;
        let end = body.find(tag)?;
        self.skip(tag.len() + end + tag.len());
        Some(true)
    }

    fn number(&mut self) {
        let mut previous = ' ';
        let len = self
            .rest
            .char_indices()
            .find(|(_, c)| {
                let exponent_sign = matches!(c, '+' | '-') && matches!(previous, 'e' | 'E');
                previous = *c;
                !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_') || exponent_sign)
            })
            .map_or(self.rest.len(), |(i, _)| i);
        self.skip(len);
    }

    fn word(&mut self) -> Option<()> {
        let len = self.rest.find(|c| !is_name(c) && c != '$').unwrap_or(self.rest.len());
        let word = self.skip(len);
        if self.rest.starts_with('\'') && ["e", "b", "x", "n"].iter().any(|p| word.eq_ignore_ascii_case(p)) {
            self.quoted(word.eq_ignore_ascii_case("e"))?;
            self.literal();
        } else if ["null", "true", "false"].iter().any(|p| word.eq_ignore_ascii_case(p)) {
            self.literal();
        } else {
            // The server folds unquoted names too.
            self.put(&word.to_ascii_lowercase());
        }
        Some(())
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_comments_and_space_do_not_make_another_query() {
        let same = [
            "SELECT * FROM t WHERE id = 1 AND name = 'a'",
            "select  * from t where id=22 /* x /* y */ */ and name = 'it''s' -- tail",
            "SELECT *\nFROM t WHERE id =\t3.5e-7 AND name = $q$ any'thing $q$",
        ];
        let keys: Vec<String> = same.iter().map(|s| normalise(s).unwrap()).collect();
        assert_eq!(keys[0], "select*from t where id=? and name=?");
        assert!(keys.iter().all(|k| *k == keys[0]), "{keys:?}");
        assert_eq!(normalise("SELECT 1 WHERE x IN (1, 2,3)"), normalise("SELECT 7 WHERE x IN (9)"));
    }

    #[test]
    fn names_and_parameters_stay() {
        assert_eq!(normalise("SELECT $1, \"Odd Name\", t1.c2").unwrap(), "select $1,\"Odd Name\",t1.c2");
        assert_ne!(normalise("SELECT a FROM t1"), normalise("SELECT a FROM t2"));
        assert_eq!(normalise("VALUES (E'a\\'b', x'1f', NULL, true)").unwrap(), "values(?)");
    }

    #[test]
    fn cut_text_has_no_key() {
        for sql in ["SELECT 'abc", "SELECT /* x", "SELECT $q$ abc", "SELECT \"abc", "", "  -- only", "SELECT E'a\\"] {
            assert_eq!(normalise(sql), None, "{sql}");
        }
    }

    #[test]
    fn ids_differ_by_database_and_user_and_never_are_zero() {
        let ids = [id(1, 2, "a"), id(2, 1, "a"), id(1, 2, "b")];
        assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids.iter().all(|i| *i != 0));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_to_its_end(sql in "\\PC*") {
            let _ = normalise(&sql);
        }
    }
}
