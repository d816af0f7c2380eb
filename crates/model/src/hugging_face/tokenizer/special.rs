//! Tokens with a meaning of their own: which begin and end a text, and whether they are put there.

use serde_json::Value as Json;

use super::tokens::Tokens;
use crate::error::quoted;

/// The files that name such tokens, in order of what counts first.
pub(super) struct Sources<'f> {
    pub(super) tokenizer_config: &'f Json,
    pub(super) special_tokens_map: &'f Json,
    pub(super) config: &'f Json,
    pub(super) generation_config: &'f Json,
    pub(super) post_processor: &'f Json,
}

/// What is put around a text.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Around {
    /// Texts of the tokens in front and behind, where `post_processor` says.
    first: Option<Vec<String>>,
    last: Option<Vec<String>>,
}

/// What the files say.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Special {
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) unknown: Option<u32>,
    pub(super) separator: Option<u32>,
    pub(super) padding: Option<u32>,
    pub(super) mask: Option<u32>,
    pub(super) eot: Option<u32>,
    pub(super) eom: Option<u32>,
    /// Tokens that end a turn, beside those.
    pub(super) others: Vec<u32>,
    /// `None` where no file says.
    pub(super) adds_bos: Option<bool>,
    pub(super) adds_eos: Option<bool>,
}

/// The most ids that a list of tokens that end a text may have.
const MOST_ENDS: usize = 64;

impl Sources<'_> {
    /// Text of a token that a file names by its role: a string, or an object with the text.
    fn text(&self, name: &str) -> Option<&str> {
        let key = format!("{name}_token");
        [self.tokenizer_config, self.special_tokens_map].into_iter().find_map(|file| {
            let entry = &file[&*key];
            entry.as_str().or_else(|| entry["content"].as_str())
        })
    }

    /// Ids that the files of the model give a role: one, or a list.
    fn ids(&self, name: &str) -> impl Iterator<Item = u64> {
        let key = format!("{name}_token_id");
        let places = [&self.config[&*key], &self.config["text_config"][&*key], &self.generation_config[&*key]];
        places.into_iter().flat_map(|entry| match entry {
            Json::Array(list) => list.iter().take(MOST_ENDS).filter_map(Json::as_u64).collect(),
            one => one.as_u64().into_iter().collect::<Vec<u64>>(),
        })
    }

    /// What `post_processor` puts around a text: the last of its steps that says so.
    fn around(&self) -> Around {
        let mut around = Around::default();
        let sequence = self.post_processor["processors"].as_array();
        for step in sequence.map_or(std::slice::from_ref(self.post_processor), Vec::as_slice) {
            match step["type"].as_str() {
                Some("TemplateProcessing") => {
                    let Some(single) = step["single"].as_array() else { continue };
                    let is_text = |piece: &Json| piece["Sequence"].is_object();
                    let names = |pieces: &[Json]| -> Vec<String> {
                        pieces.iter().filter_map(|p| p["SpecialToken"]["id"].as_str().map(str::to_owned)).collect()
                    };
                    let begins = single.iter().position(is_text).unwrap_or(single.len());
                    let ends = single.iter().rposition(is_text).map_or(single.len(), |place| place + 1);
                    around.first = Some(names(&single[..begins]));
                    around.last = Some(names(&single[ends..]));
                }
                Some("RobertaProcessing" | "BertProcessing") => {
                    let name = |key: &str| step[key][0].as_str().map(str::to_owned).into_iter().collect();
                    around.first = Some(name("cls"));
                    around.last = Some(name("sep"));
                }
                _ => {}
            }
        }
        around
    }

    /// Puts together what the files say of `tokens`, of which the model has `places`.
    pub(super) fn read(&self, tokens: &Tokens, places: usize, notes: &mut Vec<String>) -> Special {
        let around = self.around();
        let is_place = |id: &u32| (*id as usize) < places;
        let by_name = |name: &str| self.text(name).and_then(|text| tokens.find(text)).filter(is_place);
        let of_model = |name: &str| -> Vec<u32> {
            let ids = self.ids(name).filter_map(|id| u32::try_from(id).ok());
            ids.filter(|id| is_place(id) && tokens.get(*id).is_some()).collect()
        };
        let role = |name: &str| by_name(name).or_else(|| of_model(name).first().copied());
        let mut special = Special {
            bos: role("bos").or_else(|| by_name("cls")),
            eos: role("eos").or_else(|| by_name("sep")),
            unknown: role("unk"),
            separator: role("sep"),
            padding: role("pad"),
            mask: role("mask"),
            ..Special::default()
        };
        for end in of_model("eos") {
            special.add_end(end, tokens.get(end).map_or("", |token| &token.text));
        }
        let configured = |name: &str| self.tokenizer_config[name].as_bool();
        special.adds_bos = match around.first.as_deref() {
            Some(first) => Some(special.takes_bos(first, tokens, is_place, notes)),
            None => configured("add_bos_token"),
        };
        special.adds_eos = match around.last.as_deref() {
            Some([last]) => Some(special.eos.is_some() && tokens.find(last) == special.eos),
            Some(_) => Some(false),
            None => configured("add_eos_token"),
        };
        special
    }
}

impl Special {
    /// Whether what stands before a text is one token that begins it. Without another, it becomes that.
    fn takes_bos(
        &mut self,
        first: &[String],
        tokens: &Tokens,
        is_place: impl Fn(&u32) -> bool,
        notes: &mut Vec<String>,
    ) -> bool {
        let ids: Vec<Option<u32>> = first.iter().map(|text| tokens.find(text).filter(&is_place)).collect();
        match (&ids[..], self.bos) {
            ([], _) => false,
            (&[Some(id)], None) => {
                self.bos = Some(id);
                true
            }
            (&[Some(id)], Some(bos)) if id == bos => true,
            _ => {
                let names: Vec<String> = first.iter().take(4).map(|text| format!("`{}`", quoted(text))).collect();
                notes.push(format!(
                    "`post_processor` puts {} before a text, which is not the token that begins one; nothing is put there",
                    names.join(" and ")
                ));
                false
            }
        }
    }

    /// Takes in a further token that ends the model's turn.
    fn add_end(&mut self, id: u32, text: &str) {
        if [self.eos, self.eot, self.eom].contains(&Some(id)) || self.others.contains(&id) {
            return;
        }
        if text.contains("eom") && self.eom.is_none() {
            self.eom = Some(id);
        } else if ["eot", "im_end", "end_of_turn", "turn|"].iter().any(|part| text.contains(part)) && self.eot.is_none()
        {
            self.eot = Some(id);
        } else {
            self.others.push(id);
        }
    }
}
